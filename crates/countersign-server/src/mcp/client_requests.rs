//! Requests of a source to the client that called it: its model's answer (sampling) and its roots.
//!
//! Promise: a request goes out on the conversation of the very call that the source serves, while that call is open, and is
//! withdrawn when nobody waits for its answer any more. Clients of the 2026-07-28 era take no requests and so serve none.

use std::sync::Arc;

use async_trait::async_trait;
use countersign_kernel::{CallingClient, ClientRefusal};
use countersign_sdk::{ClientCapability, ClientRequest};
use rmcp::model::{CustomRequest, RequestId, ServerRequest};
use rmcp::service::{OriginatingRequestId, Peer, PeerRequestOptions, RequestHandle};
use rmcp::{RoleServer, ServiceError};

use super::answer::Shape;
use super::conversation::FirstRequest;
use super::prompts::{use_up_the_first_id, withdraw};
use super::requests::{Era, Incoming, ToClient};

/// The client of one call, as a source may ask it.
pub(super) struct ClientOfCall {
    peer: Peer<RoleServer>,
    /// The client's own request: what is asked for it goes out on its stream.
    call: RequestId,
    first: FirstRequest,
    capabilities: Vec<ClientCapability>,
}

impl ClientOfCall {
    /// The client of a call, where it could serve a request: the tool is an upstream server's, and the client declares something.
    pub(super) fn of(incoming: &Incoming<'_>, shape: Shape) -> Option<Arc<dyn CallingClient>> {
        let conversation = incoming.conversation.filter(|_| incoming.era != Era::July2026)?;
        if shape != Shape::Upstream {
            return None;
        }
        let ToClient::Peer(peer) = &incoming.scope.client else { return None };
        let info = peer.peer_info()?;
        let declared = &info.capabilities;
        let sampling = declared.sampling.is_some().then_some(ClientCapability::Sampling);
        let roots = declared.roots.is_some().then_some(ClientCapability::Roots);
        let capabilities: Vec<_> = sampling.into_iter().chain(roots).collect();
        if capabilities.is_empty() {
            return None;
        }
        let (peer, call) = (peer.clone(), incoming.scope.id.clone());
        Some(Arc::new(Self { peer, call, first: conversation.first_request(), capabilities }))
    }
}

#[async_trait]
impl CallingClient for ClientOfCall {
    async fn serve(&self, request: ClientRequest) -> Result<serde_json::Value, ClientRefusal> {
        if !self.capabilities.contains(&request.capability) {
            return Err(ClientRefusal::NotDeclared);
        }
        if self.first.is_now() {
            use_up_the_first_id(&self.peer).await;
        }
        let mut request = CustomRequest::new(request.capability.method(), Some(request.params));
        // rmcp knows the call of a request by the task that sends it; the task of a handler is another one.
        request.extensions.insert(OriginatingRequestId(self.call.clone()));
        let request = ServerRequest::CustomRequest(request);
        let sent = self.peer.send_request_with_option(request, PeerRequestOptions::no_options()).await;
        let mut open = OpenRequest(Some(sent.map_err(refusal)?));
        let Some(handle) = open.0.as_mut() else { return Err(ClientRefusal::Gone) };
        let answered = (&mut handle.rx).await;
        open.0 = None;
        let result = answered.map_err(|_| ClientRefusal::Gone)?.map_err(refusal)?;
        serde_json::to_value(result).map_err(|error| ClientRefusal::Refused(error.to_string()))
    }
}

/// A request that the client has not answered. Dropping it withdraws the request.
struct OpenRequest(Option<RequestHandle<RoleServer>>);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            tokio::spawn(withdraw(handle, "the source no longer waits for it"));
        }
    }
}

fn refusal(error: ServiceError) -> ClientRefusal {
    match error {
        ServiceError::McpError(error) => ClientRefusal::Refused(error.message.into_owned()),
        _ => ClientRefusal::Gone,
    }
}
