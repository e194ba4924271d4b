/*
 * The clients of middleware-faults.mjs. Arguments: engine, mode, workload, name, hosts. Prints every acknowledged write with the times at which it
 * was started and acknowledged, and its host.
 */
import { createConnection } from "node:net";
import pg from "pg";

const [engine, mode, workload, name, ...hosts] = process.argv.slice(2);
const now = () => Number(process.hrtime.bigint() / 1_000n) / 1_000;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const timeoutMs = 3_000;

/** Rejects after a while: the outcome is not known then. */
function inTime(promise) {
  let timer;
  const late = new Promise((_, reject) => void (timer = setTimeout(reject, timeoutMs, new Error("no answer"))));
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** A connection to Redis whose commands are answered in order. */
function openRedis(host) {
  return new Promise((resolve, reject) => {
    const socket = createConnection({ host, port: 6_379, timeout: timeoutMs });
    const waiting = [];
    let text = "";
    const fail = (error) => {
      socket.destroy();
      for (const { reject: no } of waiting.splice(0)) no(error);
      reject(error);
    };
    socket.on("error", fail);
    socket.on("timeout", () => fail(new Error("timeout")));
    socket.on("close", () => fail(new Error("closed")));
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
      for (;;) {
        const parsed = parse(text);
        if (parsed === undefined) return;
        text = text.slice(parsed.end);
        const next = waiting.shift();
        if (parsed.error) next?.reject(new Error(parsed.error));
        else next?.resolve(parsed.value);
      }
    });
    const command = (...words) =>
      new Promise((yes, no) => {
        waiting.push({ resolve: yes, reject: no });
        socket.write(`*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join("")}`);
      });
    socket.once("connect", () => {
      command("AUTH", "secret").then(() => resolve({ command, close: () => socket.destroy() }), reject);
    });
  });
}

function parse(text, from = 0) {
  const line = text.indexOf("\r\n", from);
  if (line < 0) return undefined;
  const [type, rest] = [text[from], text.slice(from + 1, line)];
  const end = line + 2;
  if (type === "+" || type === ":") return { value: rest, end };
  if (type === "-") return { error: rest, end };
  const size = Number(rest);
  if (type === "$") {
    if (size < 0) return { value: null, end };
    return text.length < end + size + 2 ? undefined : { value: text.slice(end, end + size), end: end + size + 2 };
  }
  const value = [];
  let at = end;
  for (let index = 0; index < size; index++) {
    const item = parse(text, at);
    if (item === undefined) return undefined;
    value.push(item.value);
    at = item.end;
  }
  return { value, end: at };
}

const isSynchronous = mode === "synchronous";
const drivers = {
  redis: {
    async open(host) {
      const { command, close } = await inTime(openRedis(host));
      // The write is acknowledged once a replica has it too.
      const confirm = async (value) => {
        if (isSynchronous && Number(await command("WAIT", "1", "2000")) < 1) throw new Error("no replica has it");
        return value;
      };
      return {
        close,
        prepare: () => command("SET", "register", "0"),
        append: async (value) => confirm((await command("SET", `append:${value}`, "1")) && value),
        increment: async () => confirm(await command("INCR", "register")),
        async read() {
          const keys = await command("KEYS", "append:*");
          return {
            appended: keys.map((key) => key.slice("append:".length)),
            register: Number(await command("GET", "register")),
          };
        },
      };
    },
  },
  postgres: {
    async open(host) {
      const client = new pg.Client({
        host,
        user: "postgres",
        password: "secret",
        database: "postgres",
        connectionTimeoutMillis: 1_500,
      });
      client.on("error", () => undefined);
      const close = () => client.connection.stream.destroy();
      await inTime(client.connect()).catch((error) => {
        close();
        throw error;
      });
      return {
        close,
        async prepare() {
          await client.query("CREATE TABLE appended (value text PRIMARY KEY)");
          await client.query("CREATE TABLE register (value int)");
          await client.query("INSERT INTO register VALUES (0)");
        },
        append: (value) => client.query("INSERT INTO appended VALUES ($1)", [value]).then(() => value),
        increment: () =>
          client.query("UPDATE register SET value = value + 1 RETURNING value").then(({ rows }) => rows[0].value),
        async read() {
          const { rows } = await client.query("SELECT value FROM appended");
          return {
            appended: rows.map(({ value }) => value),
            register: (await client.query("SELECT value FROM register")).rows[0].value,
          };
        },
      };
    },
  },
};

async function write() {
  let number = 0;
  for (;;) {
    for (const host of hosts) {
      let connection;
      try {
        connection = await drivers[engine].open(host);
        for (;;) {
          const started = now();
          const value = await inTime(workload === "append" ? connection.append(`${name}-${number++}`) : connection.increment());
          process.stdout.write(`${value} ${started} ${now()} ${host}\n`);
          await pause(5);
        }
      } catch {
        // The outcome is not known, or the server accepts no writes: the next one may.
      } finally {
        connection?.close();
      }
      await pause(20);
    }
  }
}

if (workload === "prepare" || workload === "read") {
  const [host = "10.72.0.1"] = [name, ...hosts].filter(Boolean);
  const connection = await drivers[engine].open(host);
  const result = await connection[workload]();
  // A pipe takes the text in parts.
  await new Promise((resolve) => process.stdout.write(JSON.stringify(result ?? {}), resolve));
  connection.close();
  process.exit(0);
}
await write();
