use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
    RSA_PKCS1_SHA256,
};
use data_encoding::BASE64URL_NOPAD;
use proptest::prelude::*;
use serde_json::json;

use super::jwt::{Valid, verified};
use super::*;

const NOW: f64 = 1_800_000_000.0;

fn base64(bytes: impl AsRef<[u8]>) -> String {
    BASE64URL_NOPAD.encode(bytes.as_ref())
}

/// A token of these parts; `sign` makes the signature of the first two.
fn token(header: &Value, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let message = format!("{}.{}", base64(header.to_string()), base64(claims.to_string()));
    let signature = base64(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

fn settings() -> TokenSettings {
    TokenSettings {
        jwks_file: "keys.json".into(),
        issuer: "https://sso.test".to_owned(),
        audience: "hub".to_owned(),
        scope_claim: "scope".to_owned(),
        scopes: [("ojs:read", vec![Scope::Read]), ("ojs:all", vec![Scope::Read, Scope::Operate])]
            .map(|(value, scopes)| (value.to_owned(), scopes))
            .into(),
    }
}

fn claims() -> Value {
    json!({ "iss": "https://sso.test", "aud": "hub", "sub": "ann", "exp": NOW + 60.0, "scope": "ojs:read" })
}

fn without(claim: &str) -> Value {
    let mut claims = claims();
    claims.as_object_mut().unwrap().remove(claim).unwrap();
    claims
}

fn with(claim: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[claim] = value;
    claims
}

struct Ec(EcdsaKeyPair);

impl Ec {
    fn new() -> Self {
        Self(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap())
    }

    fn public(&self) -> Vec<u8> {
        self.0.public_key().as_ref().to_vec()
    }

    fn jwk(&self, id: &str) -> Value {
        let point = self.public();
        json!({ "kty": "EC", "crv": "P-256", "kid": id, "x": base64(&point[1..33]), "y": base64(&point[33..]) })
    }

    fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.0.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec()
    }

    fn token(&self, claims: &Value) -> String {
        token(&json!({ "alg": "ES256", "kid": "ec" }), claims, |message| self.sign(message))
    }
}

fn ed_jwk(key: &Ed25519KeyPair, id: &str) -> Value {
    json!({ "kty": "OKP", "crv": "Ed25519", "kid": id, "x": base64(key.public_key().as_ref()) })
}

fn keys(all: &[Value]) -> Keys {
    Keys::read(json!({ "keys": all }).to_string().as_bytes()).unwrap()
}

fn refused(keys: &Keys, token: &str) -> Option<Refused> {
    verified(keys, &settings(), token, NOW).err()
}

#[test]
fn a_token_of_each_algorithm_is_taken_and_names_its_operator() {
    let (ec, ed) = (Ec::new(), Ed25519KeyPair::generate().unwrap());
    let both = keys(&[ec.jwk("ec"), ed_jwk(&ed, "ed")]);
    let of_ed =
        token(&json!({ "alg": "EdDSA", "kid": "ed", "typ": "at+jwt" }), &claims(), |it| ed.sign(it).as_ref().to_vec());
    for token in [ec.token(&claims()), of_ed] {
        let Valid { subject, claims: found } = verified(&both, &settings(), &token, NOW).ok().unwrap();
        assert_eq!((subject, Value::Object(found)), ("ann".to_owned(), claims()));
    }
    // Among others the hub may be meant, too; both ends of the time have a leeway.
    for claims in [with("aud", json!(["a", "hub"])), with("exp", json!(NOW - 29.0)), with("nbf", json!(NOW + 29.0))] {
        assert_eq!(refused(&both, &ec.token(&claims)), None, "{claims}");
    }
}

#[test]
fn each_claim_must_be_there_and_right() {
    let ec = Ec::new();
    let keys = keys(&[ec.jwk("ec")]);
    for (claims, expected) in [
        (without("exp"), Refused::NoEnd),
        (with("exp", json!("soon")), Refused::NoEnd),
        (with("exp", json!(NOW - 30.0)), Refused::Expired),
        (with("nbf", json!(NOW + 31.0)), Refused::Early),
        (with("nbf", json!(null)), Refused::Begin),
        (without("iss"), Refused::Issuer),
        (with("iss", json!("https://sso.test/")), Refused::Issuer),
        (with("iss", json!(["https://sso.test"])), Refused::Issuer),
        (without("aud"), Refused::Audience),
        (with("aud", json!("hub2")), Refused::Audience),
        (with("aud", json!([])), Refused::Audience),
        (with("aud", json!({ "hub": "hub" })), Refused::Audience),
        (without("sub"), Refused::Subject),
        (with("sub", json!("")), Refused::Subject),
        (with("sub", json!(7)), Refused::Subject),
        (with("sub", json!("a\u{1b}[31m")), Refused::Subject),
        (with("sub", json!("a".repeat(129))), Refused::Subject),
        (json!([]), Refused::Claims),
    ] {
        assert_eq!(refused(&keys, &ec.token(&claims)), Some(expected), "{claims}");
    }
}

#[test]
fn only_the_algorithm_of_the_key_counts() {
    let ec = Ec::new();
    let ed = Ed25519KeyPair::generate().unwrap();
    let rsa = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let p384 = EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING).unwrap();
    let keys = keys(&[
        ec.jwk("ec"),
        ed_jwk(&ed, "ed"),
        json!({ "kty": "RSA", "kid": "rsa", "alg": "RS256", "n": "AQAB", "e": "AQAB" }),
        json!({ "kty": "EC", "crv": "P-384", "kid": "p384", "x": "AA", "y": "AA" }),
    ]);
    let none = |_: &[u8]| Vec::new();
    let by_hmac = |it: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &ec.public()), it).as_ref().to_vec();
    let by_rsa = |it: &[u8]| {
        let mut signature = vec![0; rsa.public_modulus_len()];
        rsa.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), it, &mut signature).unwrap();
        signature
    };
    let by_p384 = |it: &[u8]| p384.sign(&SystemRandom::new(), it).unwrap().as_ref().to_vec();
    let header = |alg: &str, id: &str| json!({ "alg": alg, "kid": id });
    let with = |header: &Value, sign: &dyn Fn(&[u8]) -> Vec<u8>| refused(&keys, &token(header, &claims(), sign));
    let (of_ec, of_ed) = (Some(Refused::Algorithm("ES256")), Some(Refused::Algorithm("EdDSA")));
    assert_eq!(with(&header("none", "ec"), &none), of_ec);
    assert_eq!(with(&header("None", "ec"), &none), of_ec);
    assert_eq!(with(&header("HS256", "ec"), &by_hmac), of_ec);
    assert_eq!(with(&header("RS256", "ec"), &by_rsa), of_ec);
    assert_eq!(with(&header("EdDSA", "ec"), &|it| ec.sign(it)), of_ec);
    assert_eq!(with(&header("ES256", "ed"), &|it| ec.sign(it)), of_ed);
    // Keys of other kinds are as if they were not there.
    assert_eq!(with(&header("RS256", "rsa"), &by_rsa), Some(Refused::UnknownKey));
    assert_eq!(with(&header("ES384", "p384"), &by_p384), Some(Refused::UnknownKey));
    for sign in [&none as &dyn Fn(&[u8]) -> Vec<u8>, &by_hmac, &by_p384, &|it: &[u8]| Ec::new().sign(it)] {
        assert_eq!(with(&header("ES256", "ec"), sign), Some(Refused::Signature));
    }
    // A key that the token brings along decides nothing.
    let own = Ec::new();
    let brought = json!({ "alg": "ES256", "kid": "ec", "jwk": own.jwk("ec"), "jku": "https://a.test/keys" });
    assert_eq!(with(&brought, &|it| own.sign(it)), Some(Refused::Signature));
    let critical = json!({ "alg": "ES256", "kid": "ec", "crit": ["b64"], "b64": false });
    assert_eq!(with(&critical, &|it| ec.sign(it)), Some(Refused::Critical));
}

#[test]
fn the_key_is_the_named_one_or_the_only_one() {
    let (one, two) = (Ec::new(), Ec::new());
    let (only, both) = (keys(&[one.jwk("ec")]), keys(&[one.jwk("ec"), two.jwk("other")]));
    let nameless = token(&json!({ "alg": "ES256" }), &claims(), |it| one.sign(it));
    assert_eq!(refused(&only, &nameless), None);
    assert_eq!(refused(&both, &nameless), Some(Refused::NoKeyId));
    let unknown = token(&json!({ "alg": "ES256", "kid": "gone" }), &claims(), |it| one.sign(it));
    assert_eq!([&only, &both].map(|keys| refused(keys, &unknown)), [Some(Refused::UnknownKey); 2]);
    let swapped = token(&json!({ "alg": "ES256", "kid": "other" }), &claims(), |it| one.sign(it));
    assert_eq!(refused(&both, &swapped), Some(Refused::Signature));
}

#[test]
fn what_is_no_token_is_refused() {
    let ec = Ec::new();
    let keys = keys(&[ec.jwk("ec")]);
    let right = ec.token(&claims());
    let parts: Vec<&str> = right.split('.').collect();
    let header = |text: &str| format!("{}.{}.{}", base64(text), parts[1], parts[2]);
    for (text, expected) in [
        (String::new(), Refused::Shape),
        ("a".to_owned(), Refused::Shape),
        ("..".to_owned(), Refused::Header),
        (format!("{right}.{right}"), Refused::Shape),
        (format!("{right}="), Refused::Shape),
        (format!(" {right}"), Refused::Shape),
        (format!("{}.{}", parts[0], parts[1]), Refused::Shape),
        (header("{}"), Refused::Header),
        (header(r#"{"alg":"ES256","alg":"none","kid":"ec"}"#), Refused::Header),
        (header(r#"{"alg":"ES256","kid":7}"#), Refused::Header),
        (format!("{right}{}", "A".repeat(8 * 1024)), Refused::Length),
    ] {
        assert_eq!(refused(&keys, &text), Some(expected), "{text}");
    }
}

proptest! {
    #[test]
    fn no_byte_of_a_token_can_be_another(place in any::<prop::sample::Index>(), byte in prop::num::u8::ANY) {
        let ec = Ec::new();
        let mut bytes = ec.token(&claims()).into_bytes();
        let place = place.index(bytes.len());
        prop_assume!(bytes[place] != byte);
        bytes[place] = byte;
        if let Ok(text) = String::from_utf8(bytes) {
            prop_assert!(refused(&keys(&[ec.jwk("ec")]), &text).is_some());
        }
    }

    #[test]
    fn any_text_is_read_without_a_panic(text in "\\PC*", content in "\\PC*") {
        prop_assert!(refused(&keys(&[Ec::new().jwk("ec")]), &text).is_some());
        prop_assert!(Keys::read(content.as_bytes()).is_err());
    }
}

#[test]
fn a_set_of_keys_that_cannot_be_used_names_the_member_and_no_secret() {
    let ec = Ec::new();
    let change = |member: &str, value: Value| {
        let mut key = ec.jwk("ec");
        key[member] = value;
        json!({ "keys": [key] })
    };
    for (set, words) in [
        (json!({}), "expected a JSON Web Key Set"),
        (json!({ "keys": [] }), "keys: expected at least one public key"),
        (json!({ "keys": [1] }), "keys[0]: expected a key"),
        (json!({ "keys": vec![json!({ "kty": "RSA" }); 101] }), "keys: expected at most 100"),
        (json!({ "keys": [ec.jwk("a"), ec.jwk("a")] }), "keys[1].kid: expected an id"),
        (change("d", json!("hidden")), "keys[0]: expected a public key; this one is secret"),
        (json!({ "keys": [{ "kty": "oct", "k": "hidden" }] }), "keys[0]: expected a public key; this one is secret"),
        (change("x", json!("AA")), "keys[0].x: expected 32 bytes"),
        (change("y", json!(null)), "keys[0].y: expected 32 bytes"),
        (change("y", json!(base64([1; 32]))), "keys[0].x: expected a point of the curve"),
        (change("use", json!("enc")), "keys: expected at least one public key"),
        (change("key_ops", json!(["sign"])), "keys: expected at least one public key"),
        (change("alg", json!("ES384")), "keys: expected at least one public key"),
    ] {
        let why = Keys::read(set.to_string().as_bytes()).unwrap_err();
        assert!(why.contains(words) && !why.contains("hidden"), "{set}: {why}");
    }
}

#[test]
fn claims_give_the_scopes_of_the_configuration_and_no_others() {
    let ec = Ec::new();
    let dir = tempfile::tempdir().unwrap();
    let jwks_file = dir.path().join("keys.json");
    std::fs::write(&jwks_file, json!({ "keys": [ec.jwk("ec")] }).to_string()).unwrap();
    let tokens = Tokens::load(TokenSettings { jwks_file, ..settings() }).unwrap();
    let caller = |claims: &Value| tokens.caller(&ec.token(claims), 1_800_000_000_000).unwrap();
    let ann = caller(&claims());
    assert_eq!((ann.name.as_str(), ann.author.as_deref()), ("token https://sso.test#ann", Some("ann")));
    assert_eq!((ann.role, ann.region), (Role::Operator, None));
    for (value, expected) in [
        (json!("openid ojs:read"), vec![Scope::Read]),
        (json!(["ojs:all", "x", 7]), vec![Scope::Read, Scope::Operate]),
        (json!("ojs:all ojs:read"), vec![Scope::Read, Scope::Operate]),
        (json!("ojs:readx read operate OJS:ALL ojs:*"), vec![]),
        (json!(["ojs:read ojs:all"]), vec![]),
        (json!({ "ojs:read": true }), vec![]),
        (json!(null), vec![]),
    ] {
        assert_eq!(caller(&with("scope", value.clone())).scopes, expected, "{value}");
    }
    assert_eq!(caller(&without("scope")).scopes, vec![]);
}
