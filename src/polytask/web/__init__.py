"""What the web pages of polytask have in common: addresses, links and who may open them."""
