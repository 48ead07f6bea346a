"""Find checkpoint folders by path or Hub name, and check them before anything in them is opened."""
