"""What is wrong, what it means and how it is fixed: one catalogue for status, doctor, trace and the page. Pure."""
