//! Position-delete and equality-delete files.

use arrow::array::types::Int64Type;
use arrow::array::*;
use serde_json::json;

use super::*;
use crate::dv::DeletionVector;
use crate::types::field_id;

fn deletes(path: &str, positions: &[u64]) -> PositionDeletes {
    PositionDeletes {
        path: path.into(),
        spec_id: 0,
        partition: Arc::new(Struct::empty()),
        positions: DeletionVector::try_from_positions(positions.iter().copied()).unwrap(),
    }
}

fn plain() -> Table {
    table(
        json!([{"id": 1, "name": "id", "required": false, "type": "int"}, {"id": 2, "name": "x", "required": false, "type": "double"},
            {"id": 3, "name": "s", "required": false, "type": {"type": "struct", "fields": [{"id": 4, "name": "y", "required": false, "type": "int"}]}}]),
        None,
        &[],
    )
}

#[tokio::test]
async fn position_deletes_by_partition_are_sorted_and_bounded() {
    let t = plain();
    let long = "memory:/w/t/data/a-name-much-longer-than-sixteen-characters-2.parquet";
    let other = "memory:/w/t/data/a-name-much-longer-than-sixteen-characters-1.parquet";
    let all =
        vec![deletes(long, &[5, 1 << 33, 2]), deletes(other, &[0]), deletes("memory:/w/t/data/none.parquet", &[])];
    let files = write_position_deletes(&t, all.clone(), Granularity::Partition).await.unwrap();
    assert_eq!(files.len(), 1);
    let f = &files[0];
    assert_eq!(
        (f.content, f.record_count, f.referenced_data_file.as_deref(), f.sort_order_id),
        (Content::PositionDeletes, 4, None, None)
    );
    let (back, reader) = read(&t, f).await;
    assert_eq!(
        back.schema().fields().iter().map(|f| field_id(f).unwrap()).collect::<Vec<_>>(),
        [2_147_483_546, 2_147_483_545]
    );
    let rows: Vec<_> = (0..4)
        .map(|i| (back.column(0).as_string::<i32>().value(i), back.column(1).as_primitive::<Int64Type>().value(i)))
        .collect();
    assert_eq!(rows, [(other, 0), (long, 2), (long, 5), (long, 1 << 33)], "POSDEL-2");
    let m = f.metrics.as_ref().unwrap();
    // POSDEL-6: whole paths, not 16 characters of them
    assert_eq!(
        (m.lower_bounds[&2_147_483_546].as_slice(), m.upper_bounds[&2_147_483_546].as_slice()),
        (other.as_bytes(), long.as_bytes())
    );
    assert_eq!(m.upper_bounds[&2_147_483_545], (1i64 << 33).to_le_bytes());
    let kv = reader.metadata().file_metadata().key_value_metadata().unwrap().clone();
    assert!(kv.iter().any(|k| k.key == "delete-type" && k.value.as_deref() == Some("position")));

    let files = write_position_deletes(&t, all, Granularity::File).await.unwrap();
    assert_eq!(files.len(), 2);
    for f in &files {
        let m = f.metrics.as_ref().unwrap();
        let target = f.referenced_data_file.as_deref().unwrap();
        assert_eq!(m.lower_bounds[&2_147_483_546], target.as_bytes());
        assert_eq!(m.upper_bounds[&2_147_483_546], target.as_bytes());
        assert!(f.path.ends_with("-deletes.parquet"));
    }
}

#[tokio::test]
async fn wrong_position_deletes_are_refused() {
    let t = plain();
    assert!(write_position_deletes(&t, vec![], Granularity::File).await.unwrap().is_empty());
    let twice = vec![deletes("memory:/a", &[1]), deletes("memory:/a", &[2])];
    assert_eq!(write_position_deletes(&t, twice, Granularity::File).await.unwrap_err().clause_id(), Some("POSDEL-2"));
    let mut d = deletes("memory:/a", &[1]);
    d.spec_id = 7;
    assert!(write_position_deletes(&t, vec![d], Granularity::File).await.unwrap_err().message().contains("7"));
    let mut d = deletes("memory:/a", &[1]);
    d.partition = Arc::new([None].into_iter().collect());
    assert_eq!(write_position_deletes(&t, vec![d], Granularity::File).await.unwrap_err().clause_id(), Some("PART-2"));
    assert_eq!(files_below(&t).await, 0);
    // TRAP-28
    assert_eq!(Granularity::of(&t).unwrap(), Granularity::File);
    assert!(
        Granularity::of(&table(
            json!([{"id": 1, "name": "a", "required": false, "type": "int"}]),
            None,
            &[("write.delete.granularity", "row")]
        ))
        .is_err()
    );
}

#[tokio::test]
async fn equality_deletes_hold_their_columns() {
    let t = plain();
    let none = Arc::new(Struct::empty());
    let rows = batch(vec![("id", Arc::new(Int64Array::from(vec![Some(10), None])) as ArrayRef)]);
    let files = write_equality_deletes(&t, 0, none.clone(), &[1], vec![rows.clone()]).await.unwrap();
    let f = &files[0];
    assert_eq!(
        (f.content, f.record_count, f.equality_ids.as_deref(), f.sort_order_id),
        (Content::EqualityDeletes, 2, Some(&[1][..]), Some(0))
    );
    let (back, _) = read(&t, f).await;
    assert_eq!((back.num_columns(), field_id(back.schema().field(0))), (1, Some(1)));
    assert_eq!(back.column(0).null_count(), 1, "EQDEL-2: null is a value here");
    assert_eq!(f.metrics.as_ref().unwrap().lower_bounds[&1], 10i32.to_le_bytes());
    // EQDEL-3
    for ids in [&[2][..], &[3], &[99], &[]] {
        assert!(write_equality_deletes(&t, 0, none.clone(), ids, vec![rows.clone()]).await.is_err(), "{ids:?}");
    }
    assert!(write_equality_deletes(&t, 0, none, &[1], vec![rows.slice(0, 0)]).await.unwrap().is_empty());
    assert_eq!(files_below(&t).await, 1);
}
