"""What do the numbers of a lesson look like when they stand still? Each title states what the data say."""

from memory_budget.figures.before_after import before_and_after
from memory_budget.figures.gradients import gradient_spread
from memory_budget.figures.learning import loss_against_learning_rate
from memory_budget.figures.measures import measures
from memory_budget.figures.timeline import timeline

__all__ = ["before_and_after", "gradient_spread", "loss_against_learning_rate", "measures", "timeline"]
