//! The clients: streams over one channel, each read by a task of its own.

use std::sync::Arc;
use std::time::Duration;

use spectrie_proto::v1;
use spectrie_proto::v1::generate_event::Event;
use spectrie_proto::v1::inference_client::InferenceClient;
use tokio::task::JoinSet;
use tonic::transport::Channel;

use crate::Failure;
use crate::table::Table;

/// Streams that run; they are cut when this is dropped.
pub(crate) struct Clients(#[expect(dead_code, reason = "it ends them")] JoinSet<()>);

impl Clients {
    /// Begins all streams of the table.
    pub(crate) fn ask(channel: &Channel, table: &Arc<Table>) -> Self {
        let client = InferenceClient::new(channel.clone());
        let mut reading = JoinSet::new();
        for number in 0..table.num_streams() {
            let (mut client, table) = (client.clone(), table.clone());
            let asked = request(number);
            reading.spawn(async move {
                let mut stream = match client.generate_stream(asked).await {
                    Ok(stream) => stream.into_inner(),
                    // Who waits for its tokens would wait for good.
                    Err(refused) => {
                        eprintln!("load: stream {number} was refused: {refused}");
                        std::process::exit(1);
                    }
                };
                while let Ok(Some(event)) = stream.message().await {
                    if let Some(Event::Delta(delta)) = event.event {
                        table.comes(number, delta.token_ids.len());
                    }
                }
            });
        }
        Self(reading)
    }
}

/// Waits until a worker serves.
pub(crate) async fn wait_ready(channel: &Channel) -> Result<(), Failure> {
    let mut client = InferenceClient::new(channel.clone());
    loop {
        let models = client.list_models(v1::ListModelsRequest {}).await?;
        if !models.into_inner().models.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn request(number: usize) -> v1::GenerateRequest {
    v1::GenerateRequest {
        request_id: Some(format!("load-{number}")),
        prompt: Some(v1::generate_request::Prompt::Text(
            "one two three four five".into(),
        )),
        sampling: Some(v1::Sampling {
            temperature: Some(0.0),
            ..Default::default()
        }),
        stopping: Some(v1::Stopping {
            ignore_eos: Some(true),
            ..Default::default()
        }),
        ..Default::default()
    }
}
