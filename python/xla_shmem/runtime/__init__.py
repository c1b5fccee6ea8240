"""This process in the job: announcement, topology, and the compiler pass in each platform."""
