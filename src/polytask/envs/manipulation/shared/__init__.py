"""Code that several manipulation tasks share: objects, reward terms and expert motions."""
