"""Pages: an authorised fetch, a form, one service, an answer."""
