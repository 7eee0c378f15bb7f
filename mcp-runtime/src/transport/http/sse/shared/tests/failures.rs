use std::{sync::Arc, time::Duration};

use tokio::time::sleep;

use super::{CALL, Call, Flaky, LEASE, backend::Failure, event, messages, notify, replica, rest, resumed, texts};

#[tokio::test(start_paused = true)]
async fn what_a_failing_backend_delays_arrives_once_and_in_order() {
    use Failure::{After, Before, Hang};
    for failures in [&[Before][..], &[After], &[Hang], &[Before, After, Hang, After], &[After, After, After]] {
        let backend = Arc::new(Flaky::default());
        let replicas = [(); 2].map(|()| replica(&backend, LEASE));
        let mut call = Call::begin(&replicas[0], CALL);
        let stream = call.opened().await;
        let mut expected = Vec::new();
        for number in 0..3 {
            backend.fail(failures);
            // Others arrive while the backend fails.
            for text in [format!("{number} a"), format!("{number} b")] {
                notify(&call.outbox, &text);
                expected.push(text);
                while backend.failures() == failures.len() {
                    tokio::task::yield_now().await;
                }
            }
            for text in &expected[2 * number..] {
                assert_eq!(event(&mut call.response).await.1, *text, "{failures:?}");
            }
        }
        backend.fail(failures);
        call.outbox.finish_call("response");
        assert_eq!(texts(&rest(&mut call.response).await), ["response"], "{failures:?}");
        expected.push("response".to_owned());
        for streams in &replicas {
            assert_eq!(texts(&rest(&mut resumed(streams, stream, 0).await).await), expected, "{failures:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn calls_are_answered_without_ids_while_no_log_can_be_written() {
    use Failure::{Before, Full, Hang};
    for failures in [&[Full][..], &[Hang], &[Before; 20]] {
        for is_opened in [false, true] {
            if is_opened && failures != [Full] {
                // The pump waits for the backend, as other tests show.
                continue;
            }
            let backend = Arc::new(Flaky::default());
            let streams = replica(&backend, LEASE);
            if !is_opened {
                backend.fail(failures);
            }
            let mut call = Call::begin(&streams, CALL);
            if is_opened {
                call.opened().await;
                backend.fail(failures);
            }
            notify(&call.outbox, "one");
            let outbox = Arc::clone(&call.outbox);
            tokio::spawn(async move {
                sleep(Duration::from_secs(30)).await;
                notify(&outbox, "two");
                outbox.finish_call("response");
            });
            let began = tokio::time::Instant::now();
            let found = messages(&mut call.response).await;
            let expected = ["one", "two", "response"].map(|text| (None, text.to_owned()));
            assert_eq!(found, expected, "{failures:?} {is_opened}");
            assert!(began.elapsed() < Duration::from_secs(31), "{failures:?} {is_opened}");
        }
    }
}
