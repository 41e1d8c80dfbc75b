//! The rules on instructions.

use super::{How, Meaning, Row, shapes};

const fn row(
    rule: &'static str,
    reason: &'static str,
    literals: &'static [&'static str],
    how: How,
) -> Row {
    Row {
        meaning: Meaning { rule, reason },
        literals,
        how,
    }
}

const fn phrase(rule: &'static str, reason: &'static str, words: &'static str) -> Row {
    row(rule, reason, &[], How::Phrase(words))
}

/// A phrase whose first words stand everywhere: only where `begins` does is it looked for.
const fn begun(
    rule: &'static str,
    reason: &'static str,
    begins: &'static [&'static str],
    words: &'static str,
) -> Row {
    row(rule, reason, begins, How::Phrase(words))
}

const IGNORE: &str = "text that is data asks to set earlier instructions aside";
const ROLE: &str = "text that is data gives its reader another role or other rules";
const TEMPLATE: &str = "marks that separate the turns of a conversation do not belong in data";
const TAG: &str = "text that is data speaks as the system, the user or the assistant";
const RESULT: &str = "text that is data passes for the result of a tool";
const APPROVAL: &str = "text that is data claims that somebody approved something";
const SEND: &str = "text that is data asks for secrets or the conversation to be sent away";
const SECRECY: &str = "text that is data asks to keep something from the person";
const REVEAL: &str = "text that is data asks for the instructions its reader was given";
const ADDRESS: &str = "text that is data turns to a model rather than to a person";
const ENCODED: &str = "instructions hide behind an encoding";

pub(super) const ROWS: &[Row] = &[
    phrase(
        "ignore-instructions",
        IGNORE,
        "ignore|disregard|forget|override|bypass|neglect *3 previous|prior|above|earlier|preceding|foregoing|former *2 instructions|prompts|directives|directions|guidelines|guardrails|orders",
    ),
    phrase(
        "ignore-instructions",
        IGNORE,
        "ignore|disregard|forget ?all|any previous|prior|earlier prompt",
    ),
    phrase(
        "ignore-instructions",
        IGNORE,
        "ignore|disregard|forget ?the above|foregoing prompt|instruction",
    ),
    phrase(
        "ignore-instructions",
        IGNORE,
        "ignore|disregard|forget|override|bypass *2 your|system|developer|safety *2 instructions|prompt|directives|guidelines|guardrails|programming|training",
    ),
    phrase(
        "ignore-instructions",
        IGNORE,
        "ignore|disregard|forget *1 everything|anything|all *3 told|instructed|said|learned|know *1 before|above|previously|earlier|now",
    ),
    begun(
        "new-role",
        ROLE,
        &["from now on"],
        "from now on you are|must|will|shall|have",
    ),
    begun(
        "new-role",
        ROLE,
        &["you are now", "you\nare now"],
        "you are now *3 mode|dan|jailbroken|unrestricted|unfiltered|root|admin|administrator|assistant|agent",
    ),
    begun(
        "new-role",
        ROLE,
        &["your new ", "your real ", "your actual ", "your true "],
        "your new|real|actual|true instructions|instruction|task|goal|objective|role|mission is|are",
    ),
    begun(
        "new-role",
        ROLE,
        &[
            "new system prompt",
            "new system instruct",
            "updated system prompt",
            "revised system prompt",
            "updated system instruct",
        ],
        "new|updated|revised system prompt|instructions|instruction",
    ),
    row(
        "chat-template",
        TEMPLATE,
        &[
            "<|im_start|>",
            "<|im_end|>",
            "<|system|>",
            "<|user|>",
            "<|assistant|>",
            "<|endoftext|>",
            "<|start_header_id|>",
            "<|end_header_id|>",
            "<|eot_id|>",
            "<|begin_of_text|>",
            "<start_of_turn>",
            "<end_of_turn>",
            "[INST]",
            "[/INST]",
            "<<SYS>>",
            "<</SYS>>",
            "<|channel|>",
            "<|tool_call|>",
        ],
        How::Literal,
    ),
    row(
        "role-tag",
        TAG,
        &[
            "<system>",
            "</system>",
            "<system-reminder>",
            "<system_prompt>",
            "<system-prompt>",
            "<assistant>",
            "[system]:",
            "### System:",
            "### Instruction:",
        ],
        How::Shape(shapes::tag),
    ),
    row(
        "role-tag",
        TAG,
        &["Human: ", "Assistant: "],
        How::Shape(shapes::turn),
    ),
    row(
        "fake-result",
        RESULT,
        &[
            "<function_results>",
            "<tool_result>",
            "<tool_results>",
            "<function_calls>",
            "<tool_call>",
            "</tool_result>",
            "[TOOL_RESULTS]",
            "[TOOL_CALLS]",
        ],
        How::Literal,
    ),
    row(
        "forged-boundary",
        RESULT,
        &["airlock-data"],
        How::Shape(shapes::boundary),
    ),
    begun(
        "fake-approval",
        APPROVAL,
        &[
            "user has ",
            "human has ",
            "owner has ",
            "administrator has ",
            "operator has ",
            "developer has ",
            "maintainer has ",
        ],
        "user|human|owner|administrator|operator|developer|maintainer has ?already|previously|explicitly approved|authorized|authorised|granted|permitted|confirmed *1 this|that|these|all|the *2 action|actions|command|commands|request|change|changes|call|calls|operation|access|permission|deletion",
    ),
    phrase(
        "fake-approval",
        APPROVAL,
        "approval|permission|authorization|consent *3 already ?been granted|given",
    ),
    begun(
        "fake-approval",
        APPROVAL,
        &[
            "you have full",
            "you have explicit",
            "you have unrestricted",
        ],
        "you have full|explicit|unrestricted permission|authorization|approval|consent to",
    ),
    begun(
        "fake-approval",
        APPROVAL,
        &[
            "no approval",
            "no confirmation",
            "no permission",
            "no review",
        ],
        "no approval|confirmation|permission|review is|are needed|required|necessary *1 for this|these action|actions|command|commands|step|steps",
    ),
    row(
        "hidden-comment",
        ADDRESS,
        &["<!--"],
        How::Shape(shapes::comment),
    ),
    row(
        "hidden-style",
        ADDRESS,
        &[
            "font-size:",
            "display:",
            "visibility:",
            "opacity:",
            "color:",
        ],
        How::Shape(shapes::style),
    ),
    row(
        "exfiltration-image",
        SEND,
        &["](http", "](//"],
        How::Shape(shapes::image),
    ),
    row(
        "exfiltration-command",
        SEND,
        &["curl ", "wget ", "| nc ", "Invoke-WebRequest "],
        How::Shape(shapes::command),
    ),
    phrase(
        "exfiltration-request",
        SEND,
        "send|post|upload|email|forward|exfiltrate|transmit|leak|submit *5 keys|key|secrets|secret|credentials|passwords|tokens|environment|conversation|history|env|prompt *4 to ?the|this|my|our|a|an http|https|attacker|webhook|following|server|url|endpoint|address|email",
    ),
    begun(
        "secrecy",
        SECRECY,
        &[
            "not tell",
            "not inform",
            "not mention",
            "not notify",
            "not alert",
            "never tell",
            "never inform",
            "never mention",
            "never notify",
            "never alert",
            "don't tell",
            "don't inform",
            "don't mention",
            "don't notify",
            "don't alert",
            "without telling",
            "without informing",
            "without mentioning",
            "without notifying",
            "without alerting",
        ],
        "not|never|don't|without tell|inform|mention|notify|alert|telling|informing|mentioning|notifying|alerting *4 user|human|operator|person|developer|owner",
    ),
    phrase(
        "reveal-prompt",
        REVEAL,
        "reveal|print|show|repeat|output|display|disclose|leak *2 your *1 system|initial|hidden|original|secret prompt|instructions|instruction|message",
    ),
    begun(
        "addressed-to-model",
        ADDRESS,
        &["if you are a", "if you're a"],
        "if you|you're ?are a|an ai|llm|chatbot|language|coding ?assistant|model|agent",
    ),
    phrase(
        "addressed-to-model",
        ADDRESS,
        "~attention|dear|hey|important|note *3 ai|llm|claude|chatgpt|copilot|gemini assistant|assistants|agent|agents|model|models|you|please|must",
    ),
    row(
        "encoded-instructions",
        ENCODED,
        // `instructions`, `previous`, `ignore` and `system prompt`, at each of the three places in a group.
        &[
            "aW5zdHJ1Y3Rpb25z",
            "luc3RydWN0aW9uc",
            "pbnN0cnVjdGlvbn",
            "cHJldmlvdX",
            "ByZXZpb3Vz",
            "wcmV2aW91c",
            "aWdub3Jl",
            "lnbm9yZ",
            "pZ25vcm",
            "SWdub3Jl",
            "JZ25vcm",
            "c3lzdGVtIHByb21wd",
            "N5c3RlbSBwcm9tcH",
            "zeXN0ZW0gcHJvbXB0",
        ],
        How::Encoded,
    ),
];
