//! What a fake worker answers to questions about draft memory: corpora by name, no text.

use std::collections::BTreeMap;

use spectrie_proto::worker_v1::admin_call::Call;
use spectrie_proto::worker_v1::admin_reply::Reply;
use spectrie_proto::worker_v1::{
    AdminCall, AdminError, AdminReply, CorpusInfo, CorpusList, Done, NamespaceInfo, NamespaceList,
};
use tonic::Code;

/// Draft memory of one fake worker.
#[derive(Debug, Default)]
pub struct FakeMemory {
    corpora: BTreeMap<String, CorpusInfo>,
    is_forgotten: bool,
}

impl FakeMemory {
    /// A memory that has corpora of these names already.
    pub fn with(corpora: &[String]) -> Self {
        let mut memory = Self::default();
        for name in corpora {
            memory.add(name, None);
        }
        memory
    }

    /// The answer to `call`: a corpus of any name but `missing` can be added; `default` holds text
    /// until it is forgotten; snapshots need a folder, which there is not.
    pub fn answer(&mut self, call: AdminCall) -> AdminReply {
        let reply = match call.call {
            Some(Call::AddCorpus(add)) => self.add(&add.corpus, add.readers),
            Some(Call::RemoveCorpus(remove)) => match self.corpora.remove(&remove.name) {
                Some(_) => Reply::Done(Done {}),
                None => error(Code::NotFound, &format!("no corpus {}", remove.name)),
            },
            Some(Call::ListCorpora(_)) => Reply::Corpora(CorpusList {
                corpora: self.corpora.values().cloned().collect(),
            }),
            Some(Call::ListNamespaces(_)) => Reply::Namespaces(NamespaceList {
                namespaces: vec![NamespaceInfo {
                    name: "default".into(),
                    num_tokens: 7,
                    ..Default::default()
                }],
            }),
            Some(Call::ForgetNamespace(_)) if !self.is_forgotten => {
                self.is_forgotten = true;
                Reply::Done(Done {})
            }
            Some(Call::ForgetNamespace(_)) => error(Code::NotFound, "no namespace, none exist"),
            Some(Call::SaveSnapshot(_)) => error(Code::FailedPrecondition, "no --state-dir"),
            None => error(Code::InvalidArgument, "no call"),
        };
        AdminReply {
            call_id: call.call_id,
            reply: Some(reply),
        }
    }

    fn add(&mut self, name: &str, readers: Option<spectrie_proto::worker_v1::Readers>) -> Reply {
        if name == "missing" {
            return error(Code::NotFound, "no corpus missing");
        }
        if self.corpora.contains_key(name) {
            return error(Code::AlreadyExists, &format!("corpus {name} is loaded"));
        }
        let info = CorpusInfo {
            name: name.to_owned(),
            num_tokens: 10,
            accepted_tokens: 3,
            readers,
            ..Default::default()
        };
        self.corpora.insert(name.to_owned(), info.clone());
        Reply::Corpus(info)
    }
}

fn error(code: Code, message: &str) -> Reply {
    Reply::Error(AdminError {
        code: code as u32,
        message: message.to_owned(),
    })
}
