"""What MNIST counting and addition share."""
