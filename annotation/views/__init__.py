"""Pages: an authorised fetch, a form, one service, a response."""
