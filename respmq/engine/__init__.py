"""What stands behind the commands."""
