"""Write an inventory of machines that were asked over ssh (`init`)."""
