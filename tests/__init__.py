import pytest

# Before anything is imported from there: a failed assertion of a shared check then shows its values.
pytest.register_assert_rewrite("tests.support")
