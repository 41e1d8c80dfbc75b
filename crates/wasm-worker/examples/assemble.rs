//! Turns the text form of a module or component into its binary form.

use std::error::Error;
use std::fs;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(text), Some(binary)) = (arguments.next(), arguments.next()) else {
        return Err("two files are wanted: the text, and where to write the module".into());
    };
    fs::write(binary, wat::parse_file(text)?)?;
    Ok(())
}
