"""Letters: what one person is told, in plain language, from templates that can be replaced and translated."""
