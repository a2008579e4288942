"""What whoever runs a site has done to it as a whole: backup, restore, the nightly clean-up."""
