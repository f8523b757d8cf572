"""PBS as a source: the accounting logs of Torque, PBS Professional and OpenPBS."""
