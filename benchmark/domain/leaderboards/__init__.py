"""What a board shows, from the labels that responses were given: rates, differences, ranks. Pure."""
