"""The topology page: checks of its JavaScript, and its pictures in the docs."""
