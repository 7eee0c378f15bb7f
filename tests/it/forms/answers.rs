//! Decoding of the client's answers.

use super::*;

#[track_caller]
fn assert_rejected<A: Ask<Answer: Debug>>(ask: &A, result: &str, expected: &str) {
    assert_eq!(ask.read(result).unwrap_err().to_string(), expected, "{result}");
}

#[test]
fn accepted_forms_are_decoded() {
    let required = r#"{"action":"accept","content":{"age":18,"agreed":true,"size":"s"}}"#;
    let expected = || Every {
        name: "Jane".to_owned(),
        email: None,
        age: 18,
        share: 0.5,
        offset: None,
        verified: true,
        agreed: true,
        size: Size::Small,
        grade: Grade::B,
        old: Old::Two,
        sizes: vec![Size::Small],
        grades: None,
        r#type: None,
    };
    assert_eq!(every().read(required), Ok(Answer::Accept(expected())));
    let all = r#"{"action":"accept","content":{
        "name":"Jöhn","email":"a@b.c","age":2e1,"share":1,"offset":-5.0,"verified":false,"agreed":false,"size":"Large",
        "grade":"C","old":"One","sizes":["Large","s"],"grades":[],"type":4294967295,"unknown":{"a":[1]}
    },"_meta":{}}"#;
    let filled = Every {
        name: "Jöhn".to_owned(),
        email: Some("a@b.c".to_owned()),
        age: 20,
        share: 1.0,
        offset: Some(-5),
        verified: false,
        agreed: false,
        size: Size::Large,
        grade: Grade::C,
        old: Old::One,
        sizes: vec![Size::Large, Size::Small],
        grades: Some(Vec::new()),
        r#type: Some(u32::MAX),
    };
    assert_eq!(every().read(all), Ok(Answer::Accept(filled)));
    let nulls = r#"{"action":"accept","content":{
        "age":18,"agreed":true,"size":"s","name":null,"email":null,"sizes":null,"grades":null
    }}"#;
    assert_eq!(every().read(nulls), Ok(Answer::Accept(expected())));
}

#[derive(Debug, PartialEq, Elicit)]
struct Limits {
    least: i64,
    most: u64,
}

#[test]
fn the_least_and_the_greatest_integers_are_decoded() {
    let result = format!(r#"{{"action":"accept","content":{{"least":{},"most":{}}}}}"#, i64::MIN, u64::MAX);
    let expected = Limits { least: i64::MIN, most: u64::MAX };
    assert_eq!(Elicitation::<Limits>::new("limits", "").read(&result), Ok(Answer::Accept(expected)));
}

/// A number in the notation with an exponent may have been rounded before it arrives.
#[test]
fn numbers_that_their_type_cannot_hold_are_rejected() {
    #[derive(Debug, PartialEq, Elicit)]
    struct Share {
        share: f32,
    }

    let accepted = |content: &str| format!(r#"{{"action":"accept","content":{{{content}}}}}"#);
    let limits = Elicitation::<Limits>::new("limits", "");
    let exact = Limits { least: -9_007_199_254_740_992, most: 9_007_199_254_740_992 };
    let read = limits.read(&accepted(r#""least":-9007199254740992.0,"most":9007199254740992e0"#));
    assert_eq!(read, Ok(Answer::Accept(exact)));
    assert_rejected(&limits, &accepted(r#""least":1e18,"most":1"#), "`least` is invalid");
    assert_rejected(&Elicitation::<Share>::new("share", ""), &accepted(r#""share":1e300"#), "`share` is invalid");
}

#[test]
fn choices_can_be_booleans() {
    let ask = Elicitation::<Several>::new("several", "");
    for (content, sizes, grades) in [
        (r#""sizes.s":true,"sizes.Large":false,"grades.a":false"#, vec![Size::Small], Some(vec![])),
        (r#""sizes.s":false,"grades.C":true,"grades.a":true,"grades.b":null"#, vec![], Some(vec![Grade::A, Grade::C])),
        (r#""sizes.Large":true"#, vec![Size::Large], None),
        (r#""sizes.Large":true,"grades.a":null"#, vec![Size::Large], None),
        (r#""sizes":["s"],"sizes.Large":true"#, vec![Size::Small], None),
    ] {
        let result = format!(r#"{{"action":"accept","content":{{{content}}}}}"#);
        assert_eq!(ask.read(&result), Ok(Answer::Accept(Several { sizes, grades })), "{result}");
    }
    for (content, expected) in [
        ("", "`sizes` is required (array)"),
        (r#""sizes.s":"yes""#, r#"`sizes.s`: "yes" must be a boolean"#),
        (r#""sizes.s":true,"sizes.Large":true"#, r#"`sizes`: ["s","Large"] must have at most 1 item"#),
        (r#""sizes":[],"grades.b":1"#, "`grades.b`: 1 must be a boolean"),
    ] {
        assert_rejected(&ask, &format!(r#"{{"action":"accept","content":{{{content}}}}}"#), expected);
    }
}

#[test]
fn every_action_is_decoded() {
    for (result, expected) in [
        (r#"{"action":"decline"}"#, Answer::Decline),
        (r#"{"action":"cancel","content":{"age":"x"}}"#, Answer::Cancel),
        (r#"{"action":"decline","content":null}"#, Answer::Decline),
    ] {
        assert_eq!(every().read(result), Ok(expected), "{result}");
    }
    for (result, expected) in [
        (r#"{"action":"accept"}"#, Answer::Accept(())),
        (r#"{"action":"accept","content":{}}"#, Answer::Accept(())),
        (r#"{"action":"decline"}"#, Answer::Decline),
        (r#"{"action":"cancel"}"#, Answer::Cancel),
    ] {
        assert_eq!(url().read(result), Ok(expected), "{result}");
    }
    let confirm = Elicitation::<Confirm>::new("a", "b");
    for result in
        [r#"{"action":"accept"}"#, r#"{"action":"accept","content":{}}"#, r#"{"action":"accept","content":null}"#]
    {
        assert_eq!(confirm.read(result), Ok(Answer::Accept(Confirm {})), "{result}");
    }
    assert_eq!(Elicitation::<Unit>::new("a", "b").read(r#"{"action":"accept"}"#), Ok(Answer::Accept(Unit)));
    assert_eq!(Answer::Accept(1).accepted(), Some(1));
    assert_eq!((Answer::<u8>::Decline.accepted(), Answer::<u8>::Cancel.is_accepted()), (None, false));
}

#[test]
fn invalid_form_content_is_rejected() {
    for (field, expected) in [
        (r#""name":5"#, "`name`: 5 must be a string"),
        (r#""name":"""#, r#"`name`: "" must have at least 1 and at most 20 characters"#),
        (r#""email":"nobody""#, r#"`email`: "nobody" must match the format `email`"#),
        (r#""age":null"#, "`age`: null must be an integer"),
        (r#""age":"30""#, r#"`age`: "30" must be an integer"#),
        (r#""age":17"#, "`age`: 17 must be at least 18 and at most 255"),
        (r#""age":256"#, "`age`: 256 must be at least 18 and at most 255"),
        (r#""age":20.5"#, "`age`: 20.5 must be an integer"),
        (r#""share":1.5"#, "`share`: 1.5 must be at least 0.0 and at most 1.0"),
        (r#""offset":5"#, "`offset`: 5 must be at least -5 and at most 4"),
        (r#""verified":"yes""#, r#"`verified`: "yes" must be a boolean"#),
        (r#""size":"Small""#, r#"`size`: "Small" must be one of "s", "Large""#),
        (r#""grade":"A""#, r#"`grade`: "A" must be one of "a", "b", "C" (did you mean "a"?)"#),
        (r#""old":["One"]"#, r#"`old`: ["One"] must be one of "One", "Two""#),
        (r#""sizes":[]"#, "`sizes`: [] must have at least 1 and at most 2 items"),
        (r#""sizes":["s","x"]"#, r#"`sizes[1]`: "x" must be one of "s", "Large""#),
        (r#""sizes":"s""#, r#"`sizes`: "s" must be an array"#),
        (r#""grades":["d"]"#, r#"`grades[0]`: "d" must be one of "a", "b", "C""#),
        (r#""type":4294967296"#, "`type`: 4294967296 must be at least 0 and at most 4294967295"),
        (
            r#""type":-1,"size":1"#,
            r#"`size`: 1 must be one of "s", "Large"; `type`: -1 must be at least 0 and at most 4294967295"#,
        ),
    ] {
        let name = field.split('"').nth(1).unwrap();
        let mut content = json!({ "age": 18, "agreed": true, "size": "s" });
        content.as_object_mut().unwrap().remove(name);
        let rest = content.to_string();
        let result = format!(r#"{{"action":"accept","content":{{{},{field}}}}}"#, rest.trim_matches(['{', '}']));
        assert_rejected(&every(), &result, expected);
    }
    for (result, expected) in [
        ("12345", "12345 must be an object"),
        ("null", "null must be an object"),
        ("{}", r#"`action` is required (one of "accept", "decline", "cancel")"#),
        (r#"{"action":"yes"}"#, r#"`action`: "yes" must be one of "accept", "decline", "cancel""#),
        (r#"{"action":1}"#, r#"`action`: 1 must be one of "accept", "decline", "cancel""#),
        (r#"{"action":"accept"}"#, "`content` is missing, expected an object: the form was accepted"),
        (r#"{"action":"accept","content":null}"#, "`content` is missing, expected an object: the form was accepted"),
        (r#"{"action":"accept","content":[]}"#, "`content`: [] must be an object"),
        (
            r#"{"action":"accept","content":{}}"#,
            "`age` is required (integer); `agreed` is required (boolean); \
             `size` is required (one of \"s\", \"Large\")",
        ),
    ] {
        assert_rejected(&every(), result, expected);
    }
}

#[test]
fn answers_to_forms_with_a_schema_are_checked() {
    let properties = json!({"name": {"type": "string"}, "age": {"type": "integer"}});
    let schema = json!({"type": "object", "properties": properties, "required": ["name"]});
    let ask = FormElicitation::new("who", "Who?", schema);
    let content = json!({"name": "Ada", "unknown": [1]});
    let accepted = ask.read(&json!({"action": "accept", "content": content}).to_string()).unwrap();
    assert_eq!(accepted.accepted().map(Value::from), Some(content));
    assert_eq!(ask.read(r#"{"action":"decline"}"#), Ok(Answer::Decline));
    for (content, expected) in [
        (json!({"name": 7}), "`name`: 7 must be a string"),
        (json!({"name": "Ada", "age": "old"}), r#"`age`: "old" must be an integer"#),
        (json!(null), "`name` is required (string)"),
    ] {
        assert_rejected(&ask, &json!({"action": "accept", "content": content}).to_string(), expected);
    }
}

#[test]
fn sampling_results_are_decoded() {
    let result = SampleRequest::new("a")
        .read(r#"{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"m","stopReason":"content_filter","_meta":{"a/d":3},"more":1}"#)
        .unwrap();
    assert_eq!(Value::from(result.meta.clone()), json!({ "a/d": 3 }));
    assert_eq!(
        (result.role, &*result.model, result.stop_reason.as_deref()),
        (Role::Assistant, "m", Some("content_filter"))
    );
    assert_eq!(result.text(), "Paris");
    let result = SampleRequest::new("a")
        .read(
            r#"{"role":"user","model":"m","stopReason":null,"content":[
                {"type":"text","text":"a","annotations":{}}, {"type":"image","data":"AQI=","mimeType":"image/png","_meta":{"a/b":1}},
                {"type":"audio","data":"","mimeType":"audio/wav","_meta":{"a/c":2}}, {"type":"text","text":"b"},
                {"type":"tool_use","id":"1","name":"t","input":{"x":[1]},"_meta":{"a/e":4}}
            ]}"#,
        )
        .unwrap();
    assert_eq!((result.role, result.text(), &result.stop_reason), (Role::User, "ab".to_owned(), &None));
    let input = json!({ "x": [1] }).as_object().unwrap().clone();
    let mut tool_use = SampleToolUse::new("1", "t", input);
    tool_use.meta.insert("a/e".to_owned(), json!(4));
    let mut image = Image::png([1, 2]);
    image.meta.insert("a/b".to_owned(), json!(1));
    let mut audio = Audio::wav([]);
    audio.meta.insert("a/c".to_owned(), json!(2));
    let expected = [
        SampleContent::text("a"),
        SampleContent::Image(image),
        SampleContent::Audio(audio),
        "b".into(),
        SampleContent::ToolUse(tool_use.clone()),
    ];
    assert_eq!(result.content, expected);
    assert_eq!(result.tool_uses().collect::<Vec<_>>(), [&tool_use]);
}

#[test]
fn invalid_sampling_results_are_rejected() {
    let ask = SampleRequest::new("a");
    for (content, expected) in [
        ("5", "`content`: 5 must be an array or an object"),
        ("{}", r#"`content.type` is required (one of "text", "image", "audio", "tool_use")"#),
        (r#"{"type":"text"}"#, "`content.text` is required (string)"),
        (r#"{"type":"text","text":1}"#, "`content.text`: 1 must be a string"),
        (
            r#"[{"type":"text","text":""},{"type":"tool_result"}]"#,
            r#"`content[1].type`: "tool_result" must be one of "text", "image", "audio", "tool_use""#,
        ),
        (
            r#"[{"type":"image","data":"?","mimeType":"a"}]"#,
            "`content[0].data` is not valid base64: Invalid symbol 63, offset 0.",
        ),
        (r#"{"type":"tool_use","id":"1","name":"t","input":"{}"}"#, r#"`content.input`: "{}" must be an object"#),
    ] {
        assert_rejected(&ask, &format!(r#"{{"role":"assistant","model":"m","content":{content}}}"#), expected);
    }
    for (result, expected) in [
        ("[]", "[] must be an object"),
        (r#"{"role":"system","model":"m","content":[]}"#, r#"`role`: "system" must be one of "user", "assistant""#),
        (r#"{"content":[]}"#, r#"`role` is required (one of "user", "assistant"); `model` is required (string)"#),
    ] {
        assert_rejected(&ask, result, expected);
    }
}

#[test]
fn roots_are_decoded() {
    let read =
        |result| ListRoots.read(result).unwrap().into_iter().map(|root| (root.uri, root.name)).collect::<Vec<_>>();
    assert_eq!(read(r#"{"roots":[]}"#), []);
    let result = r#"{"roots":[{"uri":"file:///a","name":"A"},{"uri":"file:///b","name":null},{"uri":"file:///c"}]}"#;
    let expected = [("file:///a", Some("A")), ("file:///b", None), ("file:///c", None)];
    assert_eq!(read(result), expected.map(|(uri, name)| (uri.to_owned(), name.map(str::to_owned))));
    let roots = ListRoots.read(r#"{"roots":[{"uri":"file:///a","_meta":{"a/b":1}}]}"#).unwrap();
    assert_eq!(Value::from(roots[0].meta.clone()), json!({ "a/b": 1 }));
    for (result, expected) in [
        ("true", "true must be an object"),
        ("{}", "`roots` is required (array)"),
        (r#"{"roots":{}}"#, "`roots`: {} must be an array"),
        (r#"{"roots":["file:///a"]}"#, r#"`roots[0]`: "file:///a" must be an object"#),
        (r#"{"roots":[{"name":"a"}]}"#, "`roots[0].uri` is required (string)"),
    ] {
        assert_rejected(&ListRoots, result, expected);
    }
}
