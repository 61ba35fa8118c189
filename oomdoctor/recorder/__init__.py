"""What a running job and its machine say of their memory, sampled beside the job: one file per source."""
