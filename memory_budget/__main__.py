"""`python -m memory_budget`: see cli."""

import sys

from memory_budget.cli import main

sys.exit(main())
