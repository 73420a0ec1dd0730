//! Every style of OpenAPI's table, `content` parameters, and Swagger 2's collection formats.

use serde_json::{Value, json};

use crate::small;

/// One parameter, its value, and the path with query that it makes.
fn written(parameter: Value, value: Value) -> String {
    let path = if parameter["in"] == "path" { "/x/{color}/y" } else { "/x" };
    let mapped = small::map(json!({ path: { "get": { "parameters": [parameter] } } }));
    let request = small::only(&mapped).request(&json!({ "color": value })).unwrap();
    request.url.strip_prefix("https://api.example/v1").unwrap().to_owned()
}

fn list() -> Value {
    json!(["blue", "black", "br own"])
}

fn object() -> Value {
    json!({ "B": 150, "G": 200, "R": 100 })
}

#[test]
fn path_parameters_follow_the_table_of_styles() {
    let path = |style: &str, explode: bool, value: Value| {
        let parameter = json!({ "name": "color", "in": "path", "required": true, "style": style, "explode": explode, "schema": {} });
        written(parameter, value)
    };
    for (style, explode, value, wanted) in [
        ("simple", false, json!("blue"), "/x/blue/y"),
        ("simple", false, list(), "/x/blue,black,br%20own/y"),
        ("simple", false, object(), "/x/B,150,G,200,R,100/y"),
        ("simple", true, list(), "/x/blue,black,br%20own/y"),
        ("simple", true, object(), "/x/B=150,G=200,R=100/y"),
        ("label", false, json!("blue"), "/x/.blue/y"),
        ("label", false, list(), "/x/.blue,black,br%20own/y"),
        ("label", false, object(), "/x/.B,150,G,200,R,100/y"),
        ("label", true, list(), "/x/.blue.black.br%20own/y"),
        ("label", true, object(), "/x/.B=150.G=200.R=100/y"),
        ("matrix", false, json!("blue"), "/x/;color=blue/y"),
        ("matrix", false, list(), "/x/;color=blue,black,br%20own/y"),
        ("matrix", false, object(), "/x/;color=B,150,G,200,R,100/y"),
        ("matrix", true, list(), "/x/;color=blue;color=black;color=br%20own/y"),
        ("matrix", true, object(), "/x/;B=150;G=200;R=100/y"),
    ] {
        assert_eq!(path(style, explode, value.clone()), wanted, "{style} {explode} {value}");
    }
}

#[test]
fn query_parameters_follow_the_table_of_styles() {
    let query = |style: &str, explode: bool, value: Value| {
        written(
            json!({ "name": "color", "in": "query", "style": style, "explode": explode, "schema": {} }),
            value,
        )
    };
    for (style, explode, value, wanted) in [
        ("form", true, json!("a&b=c#d+e%"), "/x?color=a%26b%3Dc%23d%2Be%25"),
        ("form", true, json!(""), "/x?color="),
        ("form", true, json!(5.0), "/x?color=5"),
        ("form", true, json!(true), "/x?color=true"),
        ("form", true, Value::Null, "/x"),
        ("form", true, json!([]), "/x"),
        ("form", true, list(), "/x?color=blue&color=black&color=br%20own"),
        ("form", true, object(), "/x?B=150&G=200&R=100"),
        ("form", false, list(), "/x?color=blue,black,br%20own"),
        ("form", false, object(), "/x?color=B,150,G,200,R,100"),
        ("spaceDelimited", false, list(), "/x?color=blue%20black%20br%20own"),
        ("pipeDelimited", false, list(), "/x?color=blue%7Cblack%7Cbr%20own"),
        ("pipeDelimited", false, object(), "/x?color=B%7C150%7CG%7C200%7CR%7C100"),
        ("deepObject", true, object(), "/x?color%5BB%5D=150&color%5BG%5D=200&color%5BR%5D=100"),
        (
            "deepObject",
            true,
            json!({ "a": { "b": [1, 2] } }),
            "/x?color%5Ba%5D%5Bb%5D%5B%5D=1&color%5Ba%5D%5Bb%5D%5B%5D=2",
        ),
        ("deepObject", true, json!([{ "k": 1 }]), "/x?color%5B0%5D%5Bk%5D=1"),
        ("deepObject", true, list(), "/x?color%5B%5D=blue&color%5B%5D=black&color%5B%5D=br%20own"),
        ("form", true, json!([{ "k": 1 }]), "/x?color=%7B%22k%22%3A1%7D"),
        // A style that has no place in a query: the default counts.
        ("matrix", true, json!("blue"), "/x?color=blue"),
    ] {
        assert_eq!(query(style, explode, value.clone()), wanted, "{style} {explode} {value}");
    }
}

#[test]
fn each_place_has_its_default_style() {
    let of = |place: &str| json!({ "name": "color", "in": place, "required": true, "schema": {} });
    assert_eq!(written(of("query"), list()), "/x?color=blue&color=black&color=br%20own");
    assert_eq!(written(of("query"), object()), "/x?B=150&G=200&R=100");
    assert_eq!(written(of("path"), list()), "/x/blue,black,br%20own/y");
    assert_eq!(written(of("path"), object()), "/x/B,150,G,200,R,100/y");
}

#[test]
fn reserved_characters_stay_where_allowed_but_never_begin_another_parameter() {
    let parameter = json!({ "name": "color", "in": "query", "allowReserved": true, "schema": {} });
    assert_eq!(written(parameter, json!("a/b:c?d=e&f=g#h+i")), "/x?color=a/b:c?d=e%26f=g%23h%2Bi");
}

#[test]
fn a_content_parameter_is_json() {
    let parameter =
        json!({ "name": "color", "in": "query", "content": { "application/json": { "schema": {} } } });
    assert_eq!(written(parameter, json!({ "a": [1] })), "/x?color=%7B%22a%22%3A%5B1%5D%7D");
}

#[test]
fn headers_and_cookies_are_written_as_declared() {
    let mapped = small::map(json!({ "/x": { "get": { "parameters": [
        { "name": "X-List", "in": "header", "schema": {} },
        { "name": "X-Object", "in": "header", "explode": true, "schema": {} },
        { "name": "session", "in": "cookie", "schema": {} },
        { "name": "theme", "in": "cookie", "schema": {} },
    ] } } }));
    let arguments =
        json!({ "X-List": ["a", "b"], "X-Object": { "k": 1 }, "session": "a;b=c", "theme": "dark" });
    let request = small::only(&mapped).request(&arguments).unwrap();
    assert_eq!(request.header("x-list"), Some("a,b"));
    assert_eq!(request.header("x-object"), Some("k=1"));
    assert_eq!(request.header("cookie"), Some("session=a%3Bb%3Dc; theme=dark"));
}

#[test]
fn swagger2_collection_formats_are_kept() {
    for (format, wanted) in [
        ("csv", "color=blue,black,br%20own"),
        ("ssv", "color=blue%20black%20br%20own"),
        ("tsv", "color=blue%09black%09br%20own"),
        ("pipes", "color=blue%7Cblack%7Cbr%20own"),
        ("multi", "color=blue&color=black&color=br%20own"),
    ] {
        let parameter = json!({ "name": "color", "in": "query", "type": "array", "items": { "type": "string" }, "collectionFormat": format });
        let mapped = small::swagger2(json!({ "/x": { "get": { "parameters": [parameter] } } }))
            .map(&Default::default());
        let request = small::only(&mapped).request(&json!({ "color": list() })).unwrap();
        assert_eq!(request.url, format!("https://api.example/v1/x?{wanted}"), "{format}");
    }
}
