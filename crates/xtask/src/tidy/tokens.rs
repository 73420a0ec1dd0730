//! Looking at code as tokens: it sees into macro calls (`proptest!`, `select!`), which a syntax tree does not.

use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};

/// Calls `look` with every run of sibling tokens: those of the file, and those inside each pair of brackets.
pub(super) fn each_level(tokens: &TokenStream, look: &mut impl FnMut(&[TokenTree])) {
    let siblings: Vec<TokenTree> = tokens.clone().into_iter().collect();
    look(&siblings);
    for token in &siblings {
        if let TokenTree::Group(group) = token {
            each_level(&group.stream(), look);
        }
    }
}

/// The content of every attribute, inner and outer, with those inside `cfg_attr` taken out of it: never empty.
pub(super) fn attributes(tokens: &TokenStream) -> Vec<Vec<TokenTree>> {
    let mut found = Vec::new();
    each_level(tokens, &mut |siblings| {
        for (at, token) in siblings.iter().enumerate() {
            if !is_punct(token, '#') {
                continue;
            }
            let after_bang = usize::from(siblings.get(at + 1).is_some_and(|next| is_punct(next, '!')));
            if let Some(content) = group(siblings.get(at + 1 + after_bang), Delimiter::Bracket) {
                unfold(content.stream().into_iter().collect(), &mut found);
            }
        }
    });
    found
}

pub(super) fn ident(token: &TokenTree) -> Option<&Ident> {
    match token {
        TokenTree::Ident(ident) => Some(ident),
        _ => None,
    }
}

pub(super) fn is_ident(token: &TokenTree, name: &str) -> bool {
    ident(token).is_some_and(|ident| ident == name)
}

pub(super) fn is_punct(token: &TokenTree, character: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == character)
}

pub(super) fn group(token: Option<&TokenTree>, delimiter: Delimiter) -> Option<&Group> {
    match token {
        Some(TokenTree::Group(group)) if group.delimiter() == delimiter => Some(group),
        _ => None,
    }
}

pub(super) fn line(token: &TokenTree) -> usize {
    token.span().start().line
}

/// `cfg_attr(condition, a, b)` means `a` and `b`.
fn unfold(attribute: Vec<TokenTree>, into: &mut Vec<Vec<TokenTree>>) {
    let Some(first) = attribute.first() else { return };
    match group(attribute.get(1), Delimiter::Parenthesis) {
        Some(arguments) if is_ident(first, "cfg_attr") => {
            let arguments: Vec<TokenTree> = arguments.stream().into_iter().collect();
            for conditional in arguments.split(|token| is_punct(token, ',')).skip(1) {
                unfold(conditional.to_vec(), into);
            }
        }
        _ => into.push(attribute),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_wherever_they_stand() {
        let source = "
            #![inner]
            #[outer(x)] fn f() { proptest! { #[in_macro] fn g() {} } }
            #[cfg_attr(test, first, cfg_attr(unix, second(y)),)] struct S;
            #[]
        ";
        let tokens = source.parse().unwrap();
        let names: Vec<String> =
            attributes(&tokens).iter().map(|attribute| attribute[0].to_string()).collect();
        assert_eq!(names, ["inner", "outer", "first", "second", "in_macro"]);
    }
}
