use super::*;
use crate::open::provider;

fn settings(id: &str, vars: &[(&str, &str)]) -> Result<Settings, ModelError> {
    let vars: Vec<(String, String)> = vars.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let env = move |name: &str| vars.iter().find(|(k, _)| k == name).map(|(_, v)| v.clone());
    read(provider(id).unwrap(), &format!("{id}/m"), &env)
}

#[test]
fn a_missing_key_says_which_variable_to_set() {
    for (id, variable) in
        [("anthropic", "ANTHROPIC_API_KEY"), ("openai", "OPENAI_API_KEY"), ("gemini", "GEMINI_API_KEY")]
    {
        let error = settings(id, &[(variable, "  ")]).unwrap_err().to_string();
        assert!(error.contains(variable), "{error}");
    }
    assert!(settings("ollama", &[]).is_ok());
    assert!(settings("compatible", &[]).unwrap_err().to_string().contains("HOOKWRIGHT_COMPATIBLE_BASE_URL"));
}

#[test]
fn base_urls_are_read_as_the_sdks_read_them() {
    for (id, given, base) in [
        ("anthropic", "http://127.0.0.1:1/", "http://127.0.0.1:1/"),
        ("anthropic", "http://127.0.0.1:1/v1", "http://127.0.0.1:1/"),
        ("openai", "https://gw.example.com/openai/v1/", "https://gw.example.com/openai/v1"),
        ("gemini", "http://[::1]:1/v1beta", "http://[::1]:1/"),
        ("ollama", "0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("ollama", "gpu.local:1234", "http://gpu.local:1234/v1"),
        ("ollama", "https://ollama.example.com", "https://ollama.example.com/v1"),
        ("ollama", "http://x:5/v1", "http://x:5/v1"),
    ] {
        let variable = provider(id).unwrap().base_variable;
        let vars = [(variable, given), ("ANTHROPIC_API_KEY", "k"), ("OPENAI_API_KEY", "k"), ("GEMINI_API_KEY", "k")];
        assert_eq!(settings(id, &vars).unwrap().base.as_str(), base, "{given}");
    }
    for bad in ["ftp://x/v1", "http://", "not a url", "http://user:sesame@x/v1", "http://x/v1?a=b"] {
        let error = settings("compatible", &[("HOOKWRIGHT_COMPATIBLE_BASE_URL", bad)]).unwrap_err().to_string();
        assert!(error.contains("HOOKWRIGHT_COMPATIBLE_BASE_URL") && !error.contains("sesame"), "{error}");
    }
}

#[test]
fn keys_go_into_the_header_that_the_provider_reads() {
    let header = |id, vars: &[(&str, &str)]| settings(id, vars).unwrap().auth.map(|(h, s)| (h, s.reveal().to_owned()));
    assert_eq!(header("anthropic", &[("ANTHROPIC_API_KEY", " k\r\n")]), Some((Header::XApiKey, "k".into())));
    assert_eq!(header("anthropic", &[("ANTHROPIC_AUTH_TOKEN", "t")]), Some((Header::Bearer, "t".into())));
    assert_eq!(header("gemini", &[("GOOGLE_API_KEY", "g")]), Some((Header::XGoogApiKey, "g".into())));
    assert_eq!(header("openai-chat", &[("OPENAI_API_KEY", "o")]), Some((Header::Bearer, "o".into())));
    assert_eq!(header("ollama", &[]), None);
    let error = settings("openai", &[("OPENAI_API_KEY", "two words")]).unwrap_err().to_string();
    assert!(error.contains("OPENAI_API_KEY") && !error.contains("two words"), "{error}");
}

#[test]
fn no_proxy_stands_before_this_machine() {
    let proxy = [("HTTPS_PROXY", "http://p:1"), ("http_proxy", "http://p:2"), ("HTTP_PROXY", "http://evil:3")];
    let mut local = vec![("HOOKWRIGHT_COMPATIBLE_BASE_URL", "http://localhost:8000/v1")];
    local.extend(proxy);
    let read = settings("compatible", &local).unwrap().proxies;
    assert_eq!((read.http, read.https), (None, None));
    let mut far = vec![("HOOKWRIGHT_COMPATIBLE_BASE_URL", "http://gpu.example.com/v1")];
    far.extend(proxy);
    let read = settings("compatible", &far).unwrap().proxies;
    assert_eq!((read.http.as_deref(), read.https.as_deref()), (Some("http://p:2"), Some("http://p:1")));
}

#[test]
fn a_proxy_that_is_none_is_named_by_its_variable_and_not_shown() {
    for bad in ["socks5://u:sesame@p:1", "http://", "::sesame::"] {
        let error = settings("openai", &[("OPENAI_API_KEY", "k"), ("HTTPS_PROXY", bad)]).unwrap_err().to_string();
        assert!(error.contains("HTTPS_PROXY") && !error.contains("sesame"), "{error}");
    }
    let bare = settings("openai", &[("OPENAI_API_KEY", "k"), ("ALL_PROXY", "proxy:3128")]).unwrap().proxies;
    assert_eq!(bare.https.as_deref(), Some("http://proxy:3128"));
}

#[test]
fn debug_shows_no_key() {
    let s = settings("openai", &[("OPENAI_API_KEY", "sk-sesame"), ("https_proxy", "http://u:sesame@p:1")]).unwrap();
    assert!(!format!("{s:?}").contains("sesame"), "{s:?}");
}
