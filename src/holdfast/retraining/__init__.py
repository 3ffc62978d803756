"""Models as a later training run would leave them: fine-tuned, trained anew, or trained without some rows."""
