//! What hooks don't see and a manifest passes: resources, prompts, completions, levels of logs, subscriptions.

use crate::desk::{Listener, Subscription};
use crate::session::Session;
use crate::way::Way;
use crate::wire::{self, Fault, Request};
use hookwright_core::manifest::Pass;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::sync::Arc;

/// Resources of one subscription.
const RESOURCES: usize = 1_000;

impl Session {
    /// A request that is passed on to the right server; none where no manifest passes such a one.
    pub(crate) async fn passed(&self, method: &str, request: &Request) -> Result<Option<Map<String, Value>>, Fault> {
        let (kind, capability) = match method {
            "resources/list"
            | "resources/templates/list"
            | "resources/read"
            | "resources/subscribe"
            | "resources/unsubscribe" => (Pass::Resources, "resources"),
            "prompts/list" | "prompts/get" => (Pass::Prompts, "prompts"),
            "completion/complete" => (Pass::Completions, "completions"),
            _ => return Ok(None),
        };
        if self.homes(kind, capability).is_empty() {
            return Ok(None);
        }
        let mut params = request.values()?;
        // What concerns this connection is said anew on that one.
        if let Some(Value::Object(meta)) = params.get_mut("_meta") {
            meta.retain(|key, _| !key.starts_with("io.modelcontextprotocol/") && key != "progressToken");
            if meta.is_empty() {
                params.shift_remove("_meta");
            }
        }
        let text = |params: &Map<String, Value>, key: &str| {
            let text = params.get(key).and_then(Value::as_str).map(str::to_owned);
            text.ok_or_else(|| Fault::new(wire::INVALID_PARAMS, format!("{method} needs a {key}")))
        };
        let result = match method {
            "resources/list" => self.listed(kind, capability, "resources/list", "resources", params).await?,
            "resources/templates/list" => {
                self.listed(kind, capability, "resources/templates/list", "resourceTemplates", params).await?
            }
            "prompts/list" => self.listed(kind, capability, "prompts/list", "prompts", params).await?,
            "resources/read" => {
                let tool = self.home_of_resource(&text(&params, "uri")?).await?;
                match self.pass(&tool, "resources/read", params).await {
                    // The newest revision has no code of its own for it.
                    Err(fault) if self.modern && fault.code == wire::NOT_FOUND => {
                        return Err(Fault { code: wire::INVALID_PARAMS, ..fault });
                    }
                    read => read?,
                }
            }
            "resources/subscribe" | "resources/unsubscribe" if !self.modern => {
                let tool = self.home_of_resource(&text(&params, "uri")?).await?;
                let method =
                    if method == "resources/subscribe" { "resources/subscribe" } else { "resources/unsubscribe" };
                self.pass(&tool, method, params).await?
            }
            "prompts/get" => {
                let (tool, name) = self.home_of_prompt(&text(&params, "name")?).await?;
                params.insert("name".to_owned(), name.into());
                self.pass(&tool, "prompts/get", params).await?
            }
            "completion/complete" => self.completed(params).await?,
            _ => return Ok(None),
        };
        Ok(Some(result))
    }

    /// One page of a list over all servers that have it, one server after the other.
    async fn listed(
        &self,
        kind: Pass,
        capability: &str,
        method: &'static str,
        key: &str,
        mut params: Map<String, Value>,
    ) -> Result<Map<String, Value>, Fault> {
        let homes = self.homes(kind, capability);
        let wrong = || Fault::new(wire::INVALID_PARAMS, "this cursor was not given out");
        let (at, cursor) = match params.shift_remove("cursor") {
            None | Some(Value::Null) => (0, None),
            Some(Value::String(given)) => {
                let (tool, cursor) = given.split_once(':').ok_or_else(wrong)?;
                let at = homes.iter().position(|home| home == tool).ok_or_else(wrong)?;
                (at, (!cursor.is_empty()).then(|| cursor.to_owned()))
            }
            Some(_) => return Err(wrong()),
        };
        let Some(tool) = homes.get(at) else { return Err(wrong()) };
        if let Some(cursor) = cursor {
            params.insert("cursor".to_owned(), cursor.into());
        }
        let mut page = match self.pass(tool, method, params).await {
            Ok(page) => page,
            // One server that can't be asked must not hide the others.
            Err(fault) if homes.len() > 1 => {
                tracing::warn!(tool, "{method}: {}", hookwright_core::text::shown(&fault.message, 300));
                Map::from_iter([(key.to_owned(), json!([]))])
            }
            Err(fault) => return Err(fault),
        };
        if key == "prompts"
            && let Some(Value::Array(prompts)) = page.get_mut(key)
        {
            for prompt in prompts {
                if let Some(name) = prompt["name"].as_str().map(|name| self.prompt_name(tool, name)) {
                    prompt["name"] = name.into();
                }
            }
        }
        let next = match page.get("nextCursor").and_then(Value::as_str).filter(|cursor| !cursor.is_empty()) {
            Some(cursor) => Some(format!("{tool}:{cursor}")),
            None => homes.get(at + 1).map(|tool| format!("{tool}:")),
        };
        match next {
            Some(next) => drop(page.insert("nextCursor".to_owned(), next.into())),
            None => drop(page.shift_remove("nextCursor")),
        }
        Ok(page)
    }

    async fn completed(&self, mut params: Map<String, Value>) -> Result<Map<String, Value>, Fault> {
        let reference = params.get("ref").cloned().unwrap_or_default();
        let tool = match (reference["type"].as_str(), reference["name"].as_str(), reference["uri"].as_str()) {
            (Some("ref/prompt"), Some(name), _) => {
                let (tool, name) = self.home_of_prompt(name).await?;
                params["ref"]["name"] = name.into();
                tool
            }
            (Some("ref/resource"), _, Some(uri)) => self.home_of_resource(uri).await?,
            _ => {
                return Err(Fault::new(
                    wire::INVALID_PARAMS,
                    "completion/complete needs a ref to a prompt or a resource",
                ));
            }
        };
        if !self.homes(Pass::Completions, "completions").contains(&tool) {
            return Err(Fault::new(wire::INVALID_PARAMS, format!("the tool {tool} passes no completions")));
        }
        self.pass(&tool, "completion/complete", params).await
    }

    /// `logging/setLevel`, for all servers that pass their logs.
    pub(crate) async fn set_level(&self, params: Map<String, Value>) -> Result<Map<String, Value>, Fault> {
        let homes = self.homes(Pass::Logging, "logging");
        if homes.is_empty() {
            return Err(Fault::new(wire::METHOD_NOT_FOUND, "no server here passes its log"));
        }
        let said = homes.iter().map(|tool| self.pass(tool, "logging/setLevel", params.clone()));
        let said = futures_util::future::join_all(said).await;
        let mut faults = vec![];
        for (tool, said) in homes.iter().zip(said) {
            if let Err(fault) = said {
                tracing::warn!(tool, "logging/setLevel: {}", hookwright_core::text::shown(&fault.message, 300));
                faults.push(fault);
            }
        }
        // One server that can't be told must not hide the others.
        match faults.into_iter().next() {
            Some(fault) if homes.len() == 1 => Err(fault),
            _ => Ok(Map::new()),
        }
    }

    /// `subscriptions/listen`: open until it is cancelled, or the session ends.
    pub(crate) async fn subscribed(
        self: &Arc<Self>,
        request: &Request,
        way: &Way,
    ) -> Result<Map<String, Value>, Fault> {
        let params = request.values()?;
        let wanted = params.get("notifications").and_then(Value::as_object).cloned().unwrap_or_default();
        let offers = self.offers().await.0;
        let mut accepted = Map::new();
        let mut subscription =
            Subscription { id: request.id.value(), methods: HashSet::default(), resources: HashSet::default() };
        for (key, method, offered) in [
            ("toolsListChanged", "notifications/tools/list_changed", true),
            ("promptsListChanged", "notifications/prompts/list_changed", offers.get("prompts").is_some()),
            ("resourcesListChanged", "notifications/resources/list_changed", offers.get("resources").is_some()),
        ] {
            if offered && wanted.get(key) == Some(&Value::Bool(true)) {
                accepted.insert(key.to_owned(), Value::Bool(true));
                subscription.methods.insert(method);
            }
        }
        let uris = wanted.get("resourceSubscriptions").and_then(Value::as_array).into_iter().flatten();
        if offers["resources"]["subscribe"] == true {
            for uri in uris.filter_map(Value::as_str).take(RESOURCES) {
                let Ok(tool) = self.home_of_resource(uri).await else { continue };
                let params = Map::from_iter([("uri".to_owned(), uri.into())]);
                if self.pass(&tool, "resources/subscribe", params).await.is_ok() {
                    subscription.resources.insert(uri.to_owned());
                }
            }
            if !subscription.resources.is_empty() {
                let uris: Vec<&String> = subscription.resources.iter().collect();
                accepted.insert("resourceSubscriptions".to_owned(), json!(uris));
            }
        }
        let id = subscription.id.clone();
        let meta = json!({wire::META_SUBSCRIPTION: id});
        let said = json!({"notifications": accepted, "_meta": meta});
        way.send(wire::notification("notifications/subscriptions/acknowledged", &said)).await;
        let listener = self.desk.listen(Listener { way: way.clone(), subscription: Some(subscription) });
        let _left = Leaves { session: self, listener };
        tokio::select! {
            () = self.ended.cancelled() => {}
            () = way.closed() => {}
        }
        Ok(wire::signed(Map::from_iter([("_meta".to_owned(), meta)]), &self.gateway.options.version))
    }
}

struct Leaves<'a> {
    session: &'a Arc<Session>,
    listener: u64,
}

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.session.desk.leave(self.listener);
    }
}
