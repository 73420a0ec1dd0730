//! Values of the script as text for people: log lines, and what was thrown.
//!
//! Promise: the text is bounded and formatting ends. A hostile getter uses the script's own CPU time, its exception is
//! swallowed, a cycle is named. Only the engine's own stop passes through.

use rquickjs::{Array, Coerced, Ctx, FromJs, Object, Value};

/// The longest log line.
pub(super) const MAX_LINE_BYTES: usize = 8 * 1024;

const MAX_DEPTH: usize = 6;
const MAX_ITEMS: usize = 100;
const CUT: char = '…';

/// The arguments of one `console` call, as one line.
pub(super) fn line<'js>(ctx: &Ctx<'js>, args: &Array<'js>, max_bytes: usize) -> rquickjs::Result<String> {
    let mut formatter = Formatter { ctx, out: String::new(), max_bytes, path: Vec::new() };
    for index in 0..args.len() {
        if index > 0 {
            formatter.out.push(' ');
        }
        let value: Value<'js> = args.get(index)?;
        formatter.top(value)?;
        if formatter.full() {
            break;
        }
    }
    Ok(formatter.finish())
}

/// A thrown value as a sentence.
pub(super) fn thrown<'js>(ctx: &Ctx<'js>, value: Value<'js>, max_bytes: usize) -> rquickjs::Result<String> {
    let mut formatter = Formatter { ctx, out: String::new(), max_bytes, path: Vec::new() };
    formatter.top(value)?;
    Ok(formatter.finish())
}

/// Catches the pending exception and returns it as text. The engine's own stop and lack of memory are not caught: they do
/// not concern the value at hand.
pub(super) fn catch_as_text(ctx: &Ctx<'_>) -> rquickjs::Result<String> {
    let value = ctx.catch();
    if value.is_uncatchable_error() || is_out_of_memory(ctx, &value)? {
        return Err(ctx.throw(value));
    }
    thrown(ctx, value, MAX_LINE_BYTES)
}

/// Swallows an exception of the script; only the engine's own stop passes.
pub(super) fn swallow_exception<T>(
    ctx: &Ctx<'_>,
    result: rquickjs::Result<T>,
) -> rquickjs::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(_) => {
            let value = ctx.catch();
            if value.is_uncatchable_error() { Err(ctx.throw(value)) } else { Ok(None) }
        }
    }
}

/// Whether a thrown value is, or may be, lack of memory. The engine throws an `InternalError`; without a message if there
/// is no memory for one; `null` if there is none for the error itself.
pub(super) fn is_out_of_memory<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> rquickjs::Result<bool> {
    if value.is_null() {
        return Ok(true);
    }
    let Some(error) = value.as_object().filter(|object| object.is_error()) else { return Ok(false) };
    Ok(field(ctx, error, "name")?.is_some_and(|name| name == "InternalError")
        && field(ctx, error, "message")?.is_none_or(|said| said.is_empty() || said == "out of memory"))
}

/// A field that is a text, as the script left it; its getters may run, and what they throw is swallowed.
pub(super) fn field<'js>(
    ctx: &Ctx<'js>,
    object: &Object<'js>,
    key: &str,
) -> rquickjs::Result<Option<String>> {
    let found = swallow_exception(ctx, object.get::<_, Value<'js>>(key))?.and_then(Value::into_string);
    Ok(found.map(|found| swallow_exception(ctx, found.to_string())).transpose()?.flatten())
}

struct Formatter<'a, 'js> {
    ctx: &'a Ctx<'js>,
    out: String,
    max_bytes: usize,
    /// The objects that are being shown, outermost first.
    path: Vec<Object<'js>>,
}

impl<'js> Formatter<'_, 'js> {
    /// A string is shown without quotes at the top.
    fn top(&mut self, value: Value<'js>) -> rquickjs::Result<()> {
        if value.is_string() {
            let text = self.text(&value)?;
            self.push(&text);
            return Ok(());
        }
        self.value(value)
    }

    fn value(&mut self, value: Value<'js>) -> rquickjs::Result<()> {
        if self.full() {
            return Ok(());
        }
        if value.is_string() {
            let text = self.text(&value)?;
            self.push(&serde_json::Value::from(text).to_string());
        } else if value.is_symbol() {
            self.push("[symbol]");
        } else if value.is_function() {
            self.push("[function]");
        } else if let Some(object) = value.as_object() {
            return self.object(object);
        } else {
            let shown = swallow_exception(self.ctx, Coerced::<String>::from_js(self.ctx, value))?;
            self.push(shown.map_or("[value]".to_owned(), |text| text.0).as_str());
        }
        Ok(())
    }

    fn object(&mut self, object: &Object<'js>) -> rquickjs::Result<()> {
        if self.path.contains(object) {
            self.push("[circular]");
            return Ok(());
        }
        if self.path.len() >= MAX_DEPTH {
            self.push("[…]");
            return Ok(());
        }
        self.path.push(object.clone());
        let done = self.inside(object);
        self.path.pop();
        done
    }

    fn inside(&mut self, object: &Object<'js>) -> rquickjs::Result<()> {
        if object.is_error() {
            return self.error(object);
        }
        if let Some(array) = object.clone().into_array() {
            return self.array(&array);
        }
        let to_json = swallow_exception(self.ctx, object.get::<_, Value<'js>>("toJSON"))?;
        if let Some(to_json) = to_json.and_then(Value::into_function) {
            let made: Option<Value<'js>> =
                swallow_exception(self.ctx, to_json.call((rquickjs::function::This(object.clone()),)))?;
            return match made {
                Some(value) => self.value(value),
                None => {
                    self.push("[object]");
                    Ok(())
                }
            };
        }
        self.fields(object)
    }

    fn error(&mut self, error: &Object<'js>) -> rquickjs::Result<()> {
        let name = self.field_text(error, "name")?.unwrap_or_else(|| "Error".to_owned());
        self.push(&name);
        if let Some(message) = self.field_text(error, "message")?.filter(|message| !message.is_empty()) {
            self.push(": ");
            self.push(&message);
        }
        Ok(())
    }

    fn array(&mut self, array: &Array<'js>) -> rquickjs::Result<()> {
        self.push("[");
        for index in 0..array.len() {
            if index > 0 {
                self.push(",");
            }
            if index >= MAX_ITEMS || self.full() {
                self.push("…");
                break;
            }
            match swallow_exception(self.ctx, array.get::<Value<'js>>(index))? {
                Some(value) => self.value(value)?,
                None => self.push("[unreadable]"),
            }
        }
        self.push("]");
        Ok(())
    }

    fn fields(&mut self, object: &Object<'js>) -> rquickjs::Result<()> {
        self.push("{");
        let mut keys = object.keys::<rquickjs::String<'js>>();
        let mut shown = 0;
        while let Some(Some(key)) = keys.next().map(|key| swallow_exception(self.ctx, key)).transpose()? {
            if shown > 0 {
                self.push(",");
            }
            if shown >= MAX_ITEMS || self.full() {
                self.push("…");
                break;
            }
            shown += 1;
            let name = self.text(key.as_value())?;
            self.push(&serde_json::Value::from(name).to_string());
            self.push(":");
            match swallow_exception(self.ctx, object.get::<_, Value<'js>>(key))? {
                Some(value) => self.value(value)?,
                None => self.push("[unreadable]"),
            }
        }
        self.push("}");
        Ok(())
    }

    fn field_text(&self, object: &Object<'js>, key: &str) -> rquickjs::Result<Option<String>> {
        let value = swallow_exception(self.ctx, object.get::<_, Value<'js>>(key))?;
        value.filter(Value::is_string).map(|value| self.text(&value)).transpose()
    }

    fn text(&self, value: &Value<'js>) -> rquickjs::Result<String> {
        let Some(text) = value.as_string() else { return Ok(String::new()) };
        if let Some(text) = swallow_exception(self.ctx, text.to_string())? {
            return Ok(text);
        }
        // A lone surrogate is not UTF-8; JSON writes it as an escape.
        let written = swallow_exception(self.ctx, self.ctx.json_stringify(text.clone()))?.flatten();
        let written =
            written.map(|written| swallow_exception(self.ctx, written.to_string())).transpose()?.flatten();
        Ok(written.unwrap_or_else(|| "[unreadable text]".to_owned()))
    }

    fn full(&self) -> bool {
        self.out.len() > self.max_bytes
    }

    fn push(&mut self, text: &str) {
        let room = (self.max_bytes + 1).saturating_sub(self.out.len());
        let end = (0..=room.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        self.out.push_str(&text[..end]);
        // A text that was cut fills the line, so that `finish` marks the cut.
        if end < text.len() {
            while !self.full() {
                self.out.push(' ');
            }
        }
    }

    fn finish(mut self) -> String {
        if self.full() {
            let room = self.max_bytes - CUT.len_utf8();
            let end = (0..=room).rev().find(|at| self.out.is_char_boundary(*at)).unwrap_or(0);
            self.out.truncate(end);
            self.out.push(CUT);
        }
        self.out
    }
}
