//! The stable codes of everything that can be wrong with a policy file.
//!
//! Documentation and `--json` consumers rely on them: a code may be added, never renamed.

macro_rules! codes {
    ($($name:ident = $code:literal, $meaning:literal;)+) => {
        $(#[doc = $meaning] pub(crate) const $name: &str = $code;)+

        /// Every code with its meaning, for documentation.
        pub const CODES: &[(&str, &str)] = &[$(($code, $meaning)),+];
    };
}

codes! {
    TOO_LARGE = "policy/too-large", "the file is larger than the limit";
    NOT_UTF8 = "policy/not-utf8", "the file is not UTF-8 text";
    BYTE_ORDER_MARK = "policy/byte-order-mark", "the file begins with a byte order mark";
    CONTROL_CHARACTER = "policy/control-character", "a NUL, a lone carriage return or another control character";
    HIDDEN_CHARACTER = "policy/hidden-character", "an invisible or direction-changing character that could mislead a reviewer";
    SYNTAX = "policy/yaml-syntax", "the text is not YAML";
    TOO_DEEP = "policy/too-deep", "values are nested deeper than the limit";
    TOO_MANY_NODES = "policy/too-many-nodes", "the file holds more values than the limit";
    TOO_MANY_PROBLEMS = "policy/too-many-problems", "more problems than are worth listing";
    TOO_MANY_PATTERNS = "policy/too-many-patterns", "more regular expressions than the limit";
    SEVERAL_DOCUMENTS = "policy/several-documents", "more than one YAML document in the file";
    ANCHOR = "policy/anchor", "a YAML anchor or alias";
    TAG = "policy/tag", "a YAML tag";
    MERGE_KEY = "policy/merge-key", "a YAML merge key";
    KEY_NOT_TEXT = "policy/key-not-text", "a key that is not a plain word";
    DUPLICATE_KEY = "policy/duplicate-key", "the same key twice in one mapping";
    DUPLICATE_NAME = "policy/duplicate-name", "the same name twice in one list";
    UNKNOWN_FIELD = "policy/unknown-field", "a field that does not exist there";
    MISSING_FIELD = "policy/missing-field", "a field that must be there is not";
    WRONG_TYPE = "policy/wrong-type", "a value of another type than the field takes";
    VERSION = "policy/version", "a format version this program does not read";
    UNKNOWN_WORD = "policy/unknown-word", "a word that is not in the list the field takes";
    UNKNOWN_SYSCALL = "policy/unknown-syscall", "a syscall that does not exist";
    UNKNOWN_TEMPLATE = "policy/unknown-template", "a sandbox template that does not exist";
    UNKNOWN_ROLE = "policy/unknown-role", "a role that `roles` does not define";
    UNKNOWN_GROUP = "policy/unknown-group", "a host group that `network.whitelist` does not define";
    NAME = "policy/name", "a name with characters names may not have";
    IDENTIFIER = "policy/identifier", "text that is not a user, plugin, tag, workspace or tool name";
    NUMBER = "policy/number", "a number that is malformed or out of range";
    UNIT = "policy/unit", "a size or time that is malformed or lacks its unit";
    GLOB = "policy/glob", "a malformed path glob";
    CAPABILITY = "policy/capability", "a malformed capability pattern";
    REGEX = "policy/regex", "a regular expression that does not compile within its limits";
    HOST = "policy/host", "text that is neither a host name, `*.` and a host name, nor an address";
    ADDRESS = "policy/address", "text that is not an address or an address block";
    PATH = "policy/path", "text that is not a usable path there";
    DIGEST = "policy/digest", "text that is not a SHA-256 digest";
    TEXT = "policy/text", "text that is empty, too long, or spans several lines";
    AMBIGUOUS = "policy/ambiguous-value", "a bare value that YAML versions read differently";
    EXCEPT_ON_DENY = "policy/except-on-deny", "an exception to a denial";
    EMPTY_EXCEPT = "policy/empty-except", "an exception without conditions, which always applies";
    CONSTRAINTS_WITHOUT_ALLOW = "policy/constraints-without-allow", "constraints on a rule that allows nothing";
    NOT_NARROWER = "policy/not-narrower", "a template limit above the built-in one";
    GATE_NEEDS_PERSON = "policy/gate-needs-person", "a gate only a person may answer is given away";
    COVERAGE_ORDER = "policy/coverage-order", "the lock threshold lies below the warning threshold";
    EMPTY_PATH_GLOB = "policy/empty-path-glob", "an empty `path_glob`, which matches nothing";
    EMPTY_CONDITION = "policy/empty-condition", "an empty list as a condition, which never holds";
    EXCEPT_EQUALS_MATCH = "policy/except-equals-match", "an exception equal to the rule's own conditions";
    NO_EFFECT = "policy/no-effect", "something that is understood and has no effect yet";
    ALLOWS_EVERYTHING = "policy/allows-everything", "an allow rule without conditions";
}
