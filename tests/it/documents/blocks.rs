//! The blocks of commands in Markdown pages.

use super::{pages_of, read};

/// A fenced block of `sh`.
#[derive(Debug, Clone)]
pub struct Block {
    pub page: String,
    /// The line of its fence.
    pub line: usize,
    pub text: String,
}

impl Block {
    /// Its first line, without a comment and the mark of a line that goes on.
    pub fn first(&self) -> &str {
        let line = self.text.lines().next().unwrap_or_default();
        line.split(" #").next().unwrap_or_default().trim_end_matches('\\').trim_end()
    }

    /// Its commands as words; comments, bodies of here-documents and what only sets variables are left out.
    pub fn commands(&self) -> Vec<Vec<String>> {
        let text = without_documents(&self.text).replace("\\\n", " ");
        let words = |part: &String| part.split_whitespace().map(str::to_owned).collect();
        let commands: Vec<Vec<String>> = parts(&text).iter().map(words).collect();
        let is_setting = |word: &String| word.split_once('=').is_some_and(|(name, _)| is_name(name));
        commands.into_iter().filter(|words| !words.iter().all(is_setting)).collect()
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The text without the bodies of its here-documents.
fn without_documents(text: &str) -> String {
    let (mut code, mut lines) = (String::new(), text.lines());
    while let Some(line) = lines.next() {
        code.push_str(line);
        code.push('\n');
        if let Some((_, end)) = line.split_once("<<'") {
            let end = end.split('\'').next().unwrap_or_default();
            lines.by_ref().take_while(|line| *line != end).for_each(drop);
        }
    }
    code
}

/// A script cut at what stands between commands, outside of quotes and comments.
fn parts(text: &str) -> Vec<String> {
    let (mut parts, mut quote, mut is_comment) = (vec![String::new()], None, false);
    for c in text.chars() {
        is_comment = is_comment && c != '\n';
        let part = parts.last_mut().unwrap();
        match (c, quote) {
            _ if is_comment => continue,
            ('#', None) if part.is_empty() || part.ends_with(' ') => {
                is_comment = true;
                continue;
            }
            ('\'' | '"', None) => quote = Some(c),
            (_, Some(open)) if c == open => quote = None,
            (';' | '|' | '&' | '\n', None) => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        // What is quoted is one word, whatever it holds.
        part.push(if quote.is_some() && c.is_whitespace() { '_' } else { c });
    }
    parts
}

/// Every block of the README and of the guides.
pub fn all() -> Vec<Block> {
    let pages = std::iter::once("README.md".to_owned()).chain(pages_of("docs/guide"));
    pages.flat_map(|page| of(&page)).collect()
}

/// The blocks of a page, in order.
pub fn of(page: &str) -> Vec<Block> {
    fenced(&read(page), "sh").into_iter().map(|(line, text)| Block { page: page.to_owned(), line, text }).collect()
}

/// The fenced blocks of a language, with the lines of their fences and without the indentation of a list.
pub fn fenced(text: &str, language: &str) -> Vec<(usize, String)> {
    let open = format!("```{language}");
    let (mut found, mut within): (Vec<(usize, String)>, Option<usize>) = (Vec::new(), None);
    for (number, line) in (1..).zip(text.lines()) {
        let indent = line.len() - line.trim_start().len();
        match within {
            None if line.trim() == open => {
                found.push((number, String::new()));
                within = Some(indent);
            }
            None => {}
            Some(_) if line.trim() == "```" => within = None,
            Some(indent) => {
                let block = &mut found.last_mut().unwrap().1;
                block.push_str(line.get(indent..).unwrap_or_default());
                block.push('\n');
            }
        }
    }
    found
}

#[test]
fn a_block_is_read_as_commands_without_comments_and_here_documents() {
    let page = "text\n1. x\n\n   ```sh\n   a=1\n   cat > f <<'END'\n   rm x\n   END\n   one 'two;\n   three' \\\n     --four && five |six &   # seven; eight\n   ```\n";
    let [(line, text)] = &fenced(page, "sh")[..] else { panic!("one block") };
    let block = Block { page: String::new(), line: *line, text: text.clone() };
    let commands: Vec<String> = block.commands().iter().map(|words| words.join(" ")).collect();
    assert_eq!((*line, block.first()), (4, "a=1"));
    assert_eq!(commands, ["cat > f <<'END'", "one 'two;_three' --four", "five", "six"]);
}
