//! Thrift on the wire, and what a metastore's faults become.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use iceberg::spec::{ListType, MapType, NestedField, PrimitiveType, StructType, Type};

use super::convert::hive_type;
use super::thrift::{Failure, Fields, Reply, Value, decode_reply, encode_call};
use super::{HiveCatalog, database_name};
use crate::catalog::Catalog;
use crate::{ErrorKind, Result};

#[test]
fn a_call_has_the_bytes_of_the_binary_protocol() {
    let call = encode_call("get_database", &Fields::from([(1, Value::text("ab")), (2, Value::I32(-2))]));
    let mut want = vec![0x80, 0x01, 0, 1, 0, 0, 0, 12];
    want.extend(b"get_database");
    want.extend([0, 0, 0, 1, 11, 0, 1, 0, 0, 0, 2, b'a', b'b', 8, 0, 2, 0xff, 0xff, 0xff, 0xfe, 0]);
    assert_eq!(call, want);
}

/// A reply message around a result struct.
fn reply(kind: u8, method: &str, result: Fields) -> Vec<u8> {
    let mut bytes = encode_call(method, &result);
    bytes[3] = kind;
    bytes
}

fn every_value() -> Fields {
    Fields::from([
        (0, Value::Bool(true)),
        (1, Value::Byte(7)),
        (2, Value::Double(-0.5)),
        (3, Value::I16(-3)),
        (4, Value::I32(4)),
        (5, Value::I64(i64::MIN)),
        (6, Value::Text(vec![0xff, 0])),
        (7, Value::Struct(Fields::from([(-1, Value::texts(["x", ""]))]))),
        (8, Value::text_map([(&"k".to_string(), &"v".to_string())])),
        (9, Value::Set(8, vec![Value::I32(1)])),
        (10, Value::structs(vec![Fields::new()])),
    ])
}

#[test]
fn every_type_goes_there_and_back_and_every_cut_is_noticed() {
    let bytes = reply(2, "m", every_value());
    match decode_reply(&mut bytes.as_slice(), "m").unwrap() {
        Reply::Result(got) => assert_eq!(got, every_value()),
        other => panic!("{other:?}"),
    }
    for n in 0..bytes.len() {
        assert!(decode_reply(&mut &bytes[..n], "m").is_err(), "cut at {n}");
    }
    assert!(matches!(decode_reply(&mut bytes.as_slice(), "other"), Err(Failure::Broken(_))));
    let refused = reply(3, "m", Fields::from([(1, Value::text("no such")), (2, Value::I32(1))]));
    let got = decode_reply(&mut refused.as_slice(), "m").unwrap();
    assert_eq!(got, Reply::Refused { message: "no such".into(), code: 1 });
}

#[test]
fn hostile_answers_are_refused() {
    let head = &reply(2, "m", Fields::new())[..13];
    let with = |tail: &[u8]| [head, tail].concat();
    let deep: Vec<u8> = std::iter::repeat_n([12u8, 0, 1], 100).flatten().collect();
    for tail in
        [deep.as_slice(), &[11, 0, 1, 0x7f, 0xff, 0xff, 0xff], &[99, 0, 1], &[15, 0, 1, 8, 0x0f, 0xff, 0xff, 0xff]]
    {
        assert!(decode_reply(&mut with(tail).as_slice(), "m").is_err(), "{tail:?}");
    }
    assert!(matches!(decode_reply(&mut &b"HTTP/1.1 400 Bad Request"[..], "m"), Err(Failure::Broken(_))));
}

#[test]
fn types_in_hives_words() {
    let field = |id, name: &str, p| Arc::new(NestedField::optional(id, name, Type::Primitive(p)));
    let s = Type::Struct(StructType::new(vec![field(1, "a", PrimitiveType::Int), field(2, "b", PrimitiveType::Uuid)]));
    let list = Type::List(ListType::new(Arc::new(NestedField::list_element(3, s, true))));
    let map = Type::Map(MapType::new(
        Arc::new(NestedField::map_key_element(4, Type::Primitive(PrimitiveType::String))),
        Arc::new(NestedField::map_value_element(5, list, true)),
    ));
    assert_eq!(hive_type(&map), "map<string,array<struct<a:int,b:string>>>");
    let of = |p| hive_type(&Type::Primitive(p));
    assert_eq!(of(PrimitiveType::Decimal { precision: 9, scale: 2 }), "decimal(9,2)");
    assert_eq!(of(PrimitiveType::TimestamptzNs), "timestamp with local time zone");
}

#[test]
fn names_that_a_metastore_would_fold_or_split_are_refused() {
    let ns = |levels: &[&str]| iceberg::NamespaceIdent::from_strs(levels).unwrap();
    assert_eq!(database_name(&ns(&["sales"])).unwrap(), "sales");
    for bad in [&["Sales"][..], &["a.b"], &["a", "b"], &["a/b"]] {
        assert_eq!(database_name(&ns(bad)).unwrap_err().kind(), ErrorKind::InvalidInput, "{bad:?}");
    }
}

/// A metastore that answers each connection with the next of `answers`; an empty one closes the connection.
fn stub(answers: Vec<Vec<u8>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut some = [0; 512];
            let _ = stream.read(&mut some);
            let _ = stream.write_all(&answer);
        }
    });
    address
}

async fn open(uri: &str, props: &[(&str, &str)]) -> Result<HiveCatalog> {
    let props: HashMap<_, _> = props.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    HiveCatalog::open("h", uri, props).await
}

#[tokio::test]
async fn faults_of_a_metastore_have_their_kinds() {
    let none = || reply(2, "get_all_databases", Fields::from([(0, Value::texts::<String>([]))]));
    let catalog = open(&stub(vec![none(), none()]), &[]).await.unwrap();
    assert!(catalog.list_namespaces(None).await.unwrap().is_empty());

    assert_eq!(open("127.0.0.1:1", &[]).await.unwrap_err().kind(), ErrorKind::Io);
    // The second address answers where the first does not.
    open(&format!("thrift://127.0.0.1:1,thrift://{}", stub(vec![none()])), &[]).await.unwrap();
    let e = open(&stub(vec![b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()]), &[]).await.unwrap_err();
    assert!(e.kind() == ErrorKind::Malformed && e.message().contains("SASL"), "{e}");
    assert_eq!(open(&stub(vec![vec![]]), &[]).await.unwrap_err().kind(), ErrorKind::Io);
    for (uri, props) in [
        ("", &[][..]),
        ("http://h:1", &[]),
        ("127.0.0.1:1", &[("engine.hive.lock-enabled", "maybe")]),
        ("127.0.0.1:1", &[("iceberg.engine.hive.lock-enabled", "no")]),
        ("127.0.0.1:1", &[("iceberg.hive.lock-timeout-ms", "soon")]),
    ] {
        assert_eq!(open(uri, props).await.unwrap_err().kind(), ErrorKind::InvalidInput, "{uri} {props:?}");
    }
    let e = open("127.0.0.1:1", &[("hive.metastore.sasl.enabled", "true")]).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);

    // An exception keeps the metastore's words; a change without an answer is not called undone.
    let exists = Fields::from([(1, Value::Struct(Fields::from([(1, Value::text("db is there"))])))]);
    let uri = stub(vec![none(), reply(2, "create_database", exists), vec![]]);
    let catalog = open(&uri, &[]).await.unwrap();
    let ns = iceberg::NamespaceIdent::new("db".into());
    let e = catalog.create_namespace(&ns, HashMap::new()).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::AlreadyExists);
    let e = catalog.create_namespace(&ns, HashMap::new()).await.unwrap_err();
    assert_eq!(e.kind(), ErrorKind::CommitUnknown, "{e}");
}
