;; A plugin for Airlock in the text form of WebAssembly: the whole interface of plain modules, by
;; hand. Its one tool, `shout`, gives the ASCII letters of a text in upper case.
;;
;; What it is given is one JSON document. Since the tool has one argument, that document begins
;;
;;   {"tool":"shout","arguments":{"text":"
;;
;; and the text runs to the first quote that no backslash stands before.
(module
  (memory (export "memory") 1)

  (data (i32.const 16)
    "[{\22name\22:\22shout\22,\22summary\22:\22Give a text in upper case\22,\22read_only\22:true,"
    "\22schema\22:{\22type\22:\22object\22,\22properties\22:{\22text\22:{\22type\22:\22string\22}},"
    "\22required\22:[\22text\22],\22additionalProperties\22:false}}]")

  ;; Where free memory begins. An instance lives for one call, so nothing is given back.
  (global $free (mut i32) (i32.const 4096))

  (func $alloc (export "airlock_alloc") (param $length i32) (result i32)
    (local $at i32)
    (local.set $at (global.get $free))
    (global.set $free (i32.add (local.get $at) (local.get $length)))
    ;; Grows by as many pages as are missing.
    (if (i32.gt_u (global.get $free) (i32.shl (memory.size) (i32.const 16)))
      (then (drop (memory.grow
        (i32.add (i32.shr_u (local.get $length) (i32.const 16)) (i32.const 1))))))
    (local.get $at))

  ;; A pointer in the upper half, a length in the lower.
  (func $packed (param $at i32) (param $length i32) (result i64)
    (i64.or
      (i64.shl (i64.extend_i32_u (local.get $at)) (i64.const 32))
      (i64.extend_i32_u (local.get $length))))

  (func (export "airlock_describe") (result i64)
    (call $packed (i32.const 16) (i32.const 189)))

  (func (export "airlock_execute") (param $in i32) (param $length i32) (result i64)
    (local $from i32) (local $out i32) (local $to i32) (local $char i32)
    ;; Behind `{"tool":"shout","arguments":{"text":"`.
    (local.set $from (i32.add (local.get $in) (i32.const 37)))
    (local.set $out (call $alloc (i32.add (local.get $length) (i32.const 16))))
    ;; `{"ok":"`
    (i64.store (local.get $out) (i64.const 0x00223a226b6f227b))
    (local.set $to (i32.add (local.get $out) (i32.const 7)))
    (block $end
      (loop $next
        (local.set $char (i32.load8_u (local.get $from)))
        (br_if $end (i32.eq (local.get $char) (i32.const 0x22)))
        (if (i32.eq (local.get $char) (i32.const 0x5c))
          (then
            ;; What stands behind a backslash stays as it is.
            (i32.store8 (local.get $to) (local.get $char))
            (local.set $from (i32.add (local.get $from) (i32.const 1)))
            (local.set $to (i32.add (local.get $to) (i32.const 1)))
            (local.set $char (i32.load8_u (local.get $from))))
          (else
            (if (i32.lt_u (i32.sub (local.get $char) (i32.const 0x61)) (i32.const 26))
              (then (local.set $char (i32.sub (local.get $char) (i32.const 32)))))))
        (i32.store8 (local.get $to) (local.get $char))
        (local.set $from (i32.add (local.get $from) (i32.const 1)))
        (local.set $to (i32.add (local.get $to) (i32.const 1)))
        (br $next)))
    ;; `"}`
    (i32.store16 (local.get $to) (i32.const 0x7d22))
    (call $packed
      (local.get $out)
      (i32.sub (i32.add (local.get $to) (i32.const 2)) (local.get $out)))))
