"""What a user installs is what was tested: the wheel, built, installed in a clean environment, and run."""
