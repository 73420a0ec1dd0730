// What a script finds in its world, made before any of it runs.
//
// Promise: the script cannot reach what stands here, nor bend it. Everything used after the script began is captured
// first; objects have no prototype or own what is looked up on them; nothing is iterated, spread or destructured then.
(host) => {
  const { call, nap, log, now, random, bits, uuid, zoned, refusedCode, refusedMessage, longestPath } = host;
  const { apply, construct, defineProperty, deleteProperty, getOwnPropertyDescriptor, getPrototypeOf } = Reflect;
  const { Promise, Error, TypeError, Proxy, WeakMap, Map, Uint8Array, String } = globalThis;
  const { slice } = String.prototype;

  const put = (object, key, value, enumerable) =>
    defineProperty(object, key, { __proto__: null, value, enumerable, writable: true, configurable: true });
  // Methods found on the instance are not looked up on a prototype that the script may have changed.
  const own = (instance, ...names) => {
    for (const name of names) put(instance, name, instance[name], false);
    return instance;
  };

  // Errors that the host made. A script can make one that looks the same, but it does not stand in here.
  const made = own(new WeakMap(), "get", "set");
  const mark = (error, name, code, message, path) => {
    put(error, "name", name, false);
    put(error, "message", message, false);
    put(error, "code", code, true);
    if (path !== undefined) put(error, "path", path, true);
    made.set(error, { __proto__: null, code, message });
    return error;
  };
  const refused = (error, path) => mark(error, "ToolError", refusedCode(), refusedMessage(), path);

  const waiting = own(new Map(), "get", "set", "delete");
  // The engine's own way to a stack: the one on the prototype is the script's to change.
  const { get: readStack } = getOwnPropertyDescriptor(Error.prototype, "stack");
  const stackOf = (error) => apply(readStack, error, []);
  // The error of a failed call is made with the call, so that it knows where it was made.
  const ask = (site, path, first, second) => {
    let slot;
    const promise = new Promise((resolve, reject) => {
      slot = { __proto__: null, resolve, reject, site, path };
    });
    const no = path === undefined ? nap(first) : call(first, second, stackOf(site));
    if (no < 0) slot.reject(refused(site, path));
    else waiting.set(no, slot);
    return promise;
  };
  const settle = (no, value) => {
    const slot = waiting.get(no);
    waiting.delete(no);
    if (slot !== undefined) slot.resolve(value);
  };
  const fail = (no, code, message) => {
    const slot = waiting.get(no);
    waiting.delete(no);
    if (slot !== undefined) slot.reject(mark(slot.site, "ToolError", code, message, slot.path));
  };

  const invalid = (error, message) => mark(error, "TypeError", "invalid_input", message);
  const readOnly = () => {
    throw invalid(new TypeError(), "tools cannot be changed; call them as tools.<path>(args)");
  };
  // Scripts ask for the same few paths over and over, so the first nodes are kept. They cannot be changed; a script can
  // tell one that is kept from one made anew only by `===`, and finds the same each time it runs.
  const mostKept = 1000;
  let kept = 0;
  const traps = {
    __proto__: null,
    get(_target, key) {
      const known = this.below[key];
      if (known !== undefined) return known;
      if (typeof key === "symbol") return undefined;
      // The language itself asks for these, when a value is awaited, printed or written as JSON.
      if (key === "then" || key === "toJSON" || key === "toString" || key === "valueOf") return undefined;
      const path = this.path === "" ? key : this.path + "." + key;
      if (path.length > longestPath)
        throw invalid(new TypeError(), "a tool path may have " + longestPath + " characters; this one is longer");
      const fresh = node(path);
      if (kept < mostKept) {
        kept += 1;
        this.below[key] = fresh;
      }
      return fresh;
    },
    apply(_target, _this, args) {
      const { path } = this;
      if (args.length > 1) {
        const message = path + " takes one argument, an object, or none; it was given " + args.length;
        const error = invalid(new TypeError(), message);
        return new Promise((_resolve, reject) => reject(error));
      }
      return ask(new Error(), path, path, args.length === 0 ? { __proto__: null } : args[0]);
    },
    has: () => false,
    ownKeys: () => [],
    getOwnPropertyDescriptor: () => undefined,
    getPrototypeOf: () => null,
    isExtensible: () => true,
    set: readOnly,
    defineProperty: readOnly,
    deleteProperty: readOnly,
    setPrototypeOf: readOnly,
    preventExtensions: readOnly,
  };
  const target = () => {};
  const node = (path) => new Proxy(target, { __proto__: traps, path, below: { __proto__: null } });

  const console = {};
  const level = (name, number) => put(console, name, (...args) => log(number, args), true);
  level("trace", 0), level("debug", 0), level("log", 1), level("info", 1), level("warn", 2), level("error", 3);

  const typed = getPrototypeOf(Uint8Array.prototype);
  const getter = (name) => getOwnPropertyDescriptor(typed, name).get;
  const [tagOf, bufferOf, offsetOf, sizeOf] = [Symbol.toStringTag, "buffer", "byteOffset", "byteLength"].map(getter);
  const crypto = {
    randomUUID: () => uuid(),
    getRandomValues(array) {
      const tag = apply(tagOf, array, []);
      if (tag === undefined || tag === "Float16Array" || tag === "Float32Array" || tag === "Float64Array")
        throw invalid(new TypeError(), "getRandomValues fills a typed array of integers");
      const size = apply(sizeOf, array, []);
      if (size > 65536) throw invalid(new TypeError(), "getRandomValues fills at most 65536 bytes at a time");
      const bytes = new Uint8Array(apply(bufferOf, array, []), apply(offsetOf, array, []), size);
      for (let i = 0; i < size; i += 4) {
        const word = bits();
        bytes[i] = word & 255;
        if (i + 1 < size) bytes[i + 1] = (word >> 8) & 255;
        if (i + 2 < size) bytes[i + 2] = (word >> 16) & 255;
        if (i + 3 < size) bytes[i + 3] = (word >> 24) & 255;
      }
      return array;
    },
  };

  // Time is the script's own, and its zone is UTC, wherever the process runs.
  const RealDate = Date;
  const { parse, UTC, prototype: date } = RealDate;
  const { toUTCString, getTime } = date;
  for (const part of ["Date", "Day", "FullYear", "Hours", "Milliseconds", "Minutes", "Month", "Seconds"]) {
    put(date, "get" + part, date["getUTC" + part], false);
    if (part !== "Day") put(date, "set" + part, date["setUTC" + part], false);
  }
  const cut = (text, from, to) => apply(slice, text, [from, to]);
  // "Tue, 14 Nov 2023 22:13:20 GMT" has the parts of the other forms, at fixed distances from its ends.
  const day = (text) => cut(text, 0, 3) + " " + cut(text, 8, 11) + " " + cut(text, 5, 7) + " " + cut(text, 12, -13);
  const clock = (text) => cut(text, -12, -4) + " GMT+0000 (UTC)";
  const inForm = (form) => function () {
    const text = apply(toUTCString, this, []);
    return text === "Invalid Date" ? text : form(text);
  };
  const whole = (text) => day(text) + " " + clock(text);
  for (const name of ["toString", "toLocaleString"]) put(date, name, inForm(whole), false);
  for (const name of ["toDateString", "toLocaleDateString"]) put(date, name, inForm(day), false);
  for (const name of ["toTimeString", "toLocaleTimeString"]) put(date, name, inForm(clock), false);
  for (const name of ["getYear", "setYear"]) deleteProperty(date, name);
  put(date, "getTimezoneOffset", function () {
    const time = apply(getTime, this, []);
    return time === time ? 0 : time;
  }, false);
  const readDate = (text) => parse(zoned(String(text)));
  const Today = new Proxy(RealDate, {
    __proto__: null,
    apply: () => whole(apply(toUTCString, new RealDate(now()), [])),
    construct(_target, args, newTarget) {
      if (args.length === 0) return construct(RealDate, [now()], newTarget);
      if (args.length > 1) return construct(RealDate, [apply(UTC, undefined, args)], newTarget);
      const first = args[0];
      return construct(RealDate, [typeof first === "string" ? readDate(first) : first], newTarget);
    },
  });
  put(RealDate, "now", () => now(), false);
  put(RealDate, "parse", readDate, false);
  put(date, "constructor", Today, false);

  put(Math, "random", () => random(), false);
  put(globalThis, "Date", Today, false);
  put(globalThis, "tools", node(""), false);
  put(globalThis, "sleep", (ms) => ask(new Error(), undefined, ms), false);
  put(globalThis, "console", console, false);
  put(globalThis, "crypto", crypto, false);
  // Threads, which could tell the time; and hooks of the engine that would run the script's code in the middle of the
  // host's, and show it the host's functions.
  for (const name of ["Atomics", "SharedArrayBuffer"]) deleteProperty(globalThis, name);
  for (const name of ["prepareStackTrace", "stackTraceLimit"]) deleteProperty(Error, name);

  return {
    settle,
    fail,
    codeOf: (error) => made.get(error)?.code,
    messageOf: (error) => made.get(error)?.message,
  };
};
