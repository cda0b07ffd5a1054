"""Makes lessons/ and solutions/ from source/, and stops where an answer could be handed out."""
