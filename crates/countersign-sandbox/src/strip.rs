//! TypeScript to JavaScript. Nothing of the source runs here.
//!
//! The source is the body of an async function: `return` and `await` are allowed at its top level, `import` and `export`
//! are not. Promise: the result means the same as the source without its types, and every position in it can be mapped back
//! to the source. Errors name line and column, counted from 1, in characters.

use std::path::{Path, PathBuf};

use countersign_kernel::ports::{ScriptFault, Stripped};
use oxc_allocator::Allocator;
use oxc_ast::ast::Program;
use oxc_codegen::{Codegen, CodegenOptions, CommentOptions};
use oxc_diagnostics::{OxcDiagnostic, Severity};
use oxc_parser::{ParseOptions, Parser, ParserReturn};
use oxc_semantic::SemanticBuilder;
use oxc_span::{GetSpan, SourceType};
use oxc_transformer::{TransformOptions, Transformer};

use crate::limits::Limits;

/// The deepest nesting of brackets. The parser recurses once per level.
const MAX_NESTING: usize = 500;

/// Strips the types of a source.
pub(crate) fn strip(source: &str, limits: &Limits) -> Result<Stripped, ScriptFault> {
    if source.len() > limits.source_bytes {
        return Err(ScriptFault::TooLong { bytes: source.len(), bound: limits.source_bytes });
    }
    if let Some(offset) = too_deep(source) {
        let message = format!("brackets are nested deeper than {MAX_NESTING} levels");
        return Err(invalid(source, offset, message));
    }
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, source, SourceType::ts().with_module(true))
        .with_options(ParseOptions {
            allow_return_outside_function: true,
            parse_regular_expression: true,
            ..ParseOptions::default()
        })
        .parse();
    refuse_first(source, &parsed.diagnostics)?;
    refuse_modules(source, &parsed)?;
    let mut program = parsed.program;
    transform(source, &allocator, &mut program)?;
    Ok(print(&program))
}

/// The offset where brackets nest too deeply. Brackets in strings count too: a second lexer would cost more than the rare
/// string that opens hundreds and closes none.
fn too_deep(source: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (offset, byte) in source.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_NESTING {
            return Some(offset);
        }
    }
    None
}

/// Refuses `import` and `export`.
fn refuse_modules(source: &str, parsed: &ParserReturn<'_>) -> Result<(), ScriptFault> {
    let declared = parsed.program.body.iter().find(|statement| statement.is_module_declaration());
    let dynamic = parsed.module_record.dynamic_imports.first().map(|import| import.span);
    let meta = parsed.module_record.import_metas.first().copied();
    let Some(span) =
        [declared.map(GetSpan::span), dynamic, meta].into_iter().flatten().min_by_key(|s| s.start)
    else {
        return Ok(());
    };
    let word = if source.get(span.start as usize..).is_some_and(|rest| rest.starts_with("export")) {
        "`export` has no place in a script: nobody imports it; use `return` for its value"
    } else {
        "`import` has no place in a script: there is nothing to import; tools are called as `tools.<path>(args)`"
    };
    Err(invalid(source, span.start as usize, word.to_owned()))
}

/// Removes the types, and turns what TypeScript adds at run time, such as enums, into JavaScript.
fn transform<'a>(
    source: &str,
    allocator: &'a Allocator,
    program: &mut Program<'a>,
) -> Result<(), ScriptFault> {
    let analysed = SemanticBuilder::new().with_check_syntax_error(true).with_enum_eval(true).build(program);
    refuse_first(source, &analysed.diagnostics)?;
    let scoping = analysed.semantic.into_scoping();
    let transformed = Transformer::new(allocator, Path::new("script.ts"), &TransformOptions::default())
        .build_with_scoping(scoping, program);
    refuse_first(source, &transformed.diagnostics)
}

fn print(program: &Program<'_>) -> Stripped {
    let options = CodegenOptions {
        source_map_path: Some(PathBuf::from("script.ts")),
        comments: CommentOptions::disabled(),
        ..CodegenOptions::default()
    };
    let printed = Codegen::new().with_options(options).build(program);
    let mappings = printed.map.map(|map| map.to_json().mappings).unwrap_or_default();
    Stripped { code: printed.code, mappings }
}

fn refuse_first(source: &str, diagnostics: &[OxcDiagnostic]) -> Result<(), ScriptFault> {
    let Some(first) = diagnostics.iter().find(|diagnostic| diagnostic.severity == Severity::Error) else {
        return Ok(());
    };
    let offset = first.labels.iter().next().map_or(0, |label| label.offset() as usize);
    let message = match &first.help {
        Some(help) => format!("{} ({help})", first.message),
        None => first.message.to_string(),
    };
    Err(invalid(source, offset, message))
}

fn invalid(source: &str, offset: usize, message: String) -> ScriptFault {
    let before = source.get(..offset).unwrap_or(source);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |text| text.chars().count()) + 1;
    ScriptFault::Invalid {
        message,
        line: u32::try_from(line).unwrap_or(u32::MAX),
        column: u32::try_from(column).unwrap_or(u32::MAX),
    }
}

#[cfg(test)]
mod tests;
