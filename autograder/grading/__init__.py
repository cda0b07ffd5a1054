"""Grades submissions: code runs shut in, the verdict is made outside, nbgrader keeps the books."""
