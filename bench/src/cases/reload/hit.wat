;; Counts its calls: each asks the kernel for `h/` and the eight digits of its id, which is in the log.
(module
  (import "airlock" "call" (func $call (param i32 i32 i32 i32) (result i32)))
  (import "airlock" "take" (func $take (param i32 i32) (result i32)))
  (memory (export "memory") 4)
  (data (i32.const 1024) "[{\"name\":\"hit\",\"summary\":\"Be counted\",\"schema\":{\"type\":\"object\"},\"read_only\":false}]")
  (data (i32.const 4096) "fs.read")
  (data (i32.const 4352) "{\"path\":\"h/00000000\"}")
  (data (i32.const 4480) "{\"ok\":true}")
  (global $free (mut i32) (i32.const 65536))
  (func $alloc (export "airlock_alloc") (param i32) (result i32)
    global.get $free
    (global.set $free (i32.add (global.get $free) (local.get 0))))
  (func $packed (param $at i32) (param $length i32) (result i64)
    (i64.or (i64.shl (i64.extend_i32_u (local.get $at)) (i64.const 32))
            (i64.extend_i32_u (local.get $length))))
  (func (export "airlock_describe") (result i64)
    (call $packed (i32.const 1024) (i32.const 84)))
  (func (export "airlock_execute") (param $in i32) (param $length i32) (result i64)
    ;; The id stands behind `{"tool":"hit","arguments":{"id":"`.
    (memory.copy (i32.const 4363) (i32.add (local.get $in) (i32.const 33)) (i32.const 8))
    (drop (call $take (call $alloc (i32.const 4096))
      (call $call (i32.const 4096) (i32.const 7) (i32.const 4352) (i32.const 21))))
    (call $packed (i32.const 4480) (i32.const 11))))
