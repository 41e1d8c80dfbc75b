//! Capability tokens: one spelling each, and an authority redeems what it issued and nothing else.
//!
//! Issued tokens hold a signature, so they are no seeds. The input is read as a token, and as a
//! list of edits to a token that was just issued: pairs of a position and a byte.

use super::request::{NOW, caller, request};
use super::{Target, text};
use airlock_core::{Digest, Request, Syscall};
use airlock_policy::Generation;
use airlock_policy::token::{Bearer, Scope, Token, TokenAuthority};

pub(super) const TARGET: Target = Target {
    name: "token",
    run,
    seeds: &[
        b"",
        b"\x050",
        b"\x14f\x15f",
        b"\x550\x560",
        b"\x94a",
        b"\x00A",
        b"alt1_",
        b"alt1_0000000000000001aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
        b"alt1_ffffffffffffffff00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
        b"alt2_0000000000000001AAAA",
    ],
    dictionary: &[
        "alt1_", "alt2_", "ALT1_", "0", "f", "A", "G", "\n", " ", "00000000", "\u{ff11}",
    ],
    iterations: 800,
};

fn run(input: &[u8]) {
    let input_text = text(input);
    let Some(world) = World::new() else {
        return;
    };
    world.present(&input_text);
    world.present(&String::from_utf8_lossy(&world.edited(input)));
}

/// One issued token, the authority that issued it, and others that did not.
struct World {
    issuer: TokenAuthority,
    issued: Token,
    others: [TokenAuthority; 2],
    request: Request,
    generation: Generation,
}

impl World {
    fn new() -> Option<Self> {
        let generation = Generation::new(Digest::of(b"fuzz"));
        let issue = |authority: &TokenAuthority, glob: &str| {
            let mut scope = Scope::new(Syscall::parse("fs.write").ok()?);
            scope.paths = vec![glob.into()];
            let bearer = Bearer::of(&caller("agent")?, generation)?;
            let pending = authority.prepare(scope, bearer, NOW).ok()?;
            Some(pending.activate())
        };
        let issuer = TokenAuthority::new([7; 32]);
        // Another kernel with the same secret and other claims under the same number, and another
        // secret with the same claims.
        let others = [TokenAuthority::new([7; 32]), TokenAuthority::new([8; 32])];
        let [same_secret, same_claims] = &others;
        issue(same_secret, "**")?;
        issue(same_claims, "src/**")?;
        Some(Self {
            issued: issue(&issuer, "src/**")?,
            issuer,
            others,
            request: request("agent", "fs.write", &["src/main.rs"])?,
            generation,
        })
    }

    fn edited(&self, edits: &[u8]) -> Vec<u8> {
        let mut token = self.issued.reveal().as_bytes().to_vec();
        let length = token.len();
        for edit in edits.chunks_exact(2).take(8) {
            if let [at, value] = edit
                && let Some(byte) = token.get_mut(usize::from(*at) % length)
            {
                *byte = *value;
            }
        }
        token
    }

    fn present(&self, text: &str) {
        let Ok(token) = Token::parse(text) else {
            return;
        };
        assert_eq!(*token.reveal(), text, "a token has a second spelling");
        assert_eq!(format!("{token:?}"), format!("Token({})", token.id()));
        let genuine = *self.issued.reveal() == text;
        let redeem = |by: &TokenAuthority| {
            by.redeem(&token, &self.request, self.generation, NOW)
                .is_ok()
        };
        assert_eq!(
            redeem(&self.issuer),
            genuine,
            "an altered token was taken, or the issued one refused"
        );
        assert!(!redeem(&self.issuer), "a token for one use was used twice");
        for other in &self.others {
            assert!(!redeem(other), "an authority took another's token");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_issued_token_is_redeemed_by_its_issuer() {
        let world = World::new().unwrap();
        let text = world.issued.reveal();
        let token = Token::parse(&text).unwrap();
        let redeemed = world
            .issuer
            .redeem(&token, &world.request, world.generation, NOW);
        assert!(redeemed.is_ok(), "{redeemed:?}");
    }
}
