import { afterEach, expect, it } from "vitest";
import type { Schema } from "@keelson/api-machinery/schema";
import { valueAt } from "../../registry/object-fields.ts";
import { widgetCrd } from "../../registry/testing/crd-samples.ts";
import { startTestEnvironment, type TestEnvironment } from "../../testing/test-environment.ts";
import { sendRequest } from "../testing/send-request.ts";

const crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const widgets = "/apis/example.com/v1/namespaces/default/widgets";
const integer: Schema = { type: "integer" };
const text: Schema = { type: "string" };

let environment: TestEnvironment;
afterEach(() => environment.stop());

/** The CRD of Widgets with these fields of `spec`. */
function crdWith(properties: Readonly<Record<string, Schema>>): object {
  const crd = widgetCrd();
  const [version] = valueAt(crd, "spec", "versions") as { schema: { openAPIV3Schema: Schema } }[];
  if (version !== undefined) {
    version.schema.openAPIV3Schema = { type: "object", properties: { spec: { type: "object", properties } } };
  }
  return crd;
}

async function start(properties: Readonly<Record<string, Schema>>): Promise<void> {
  environment = await startTestEnvironment();
  await environment.install([crdWith(properties) as never]);
}

function widget(name: string, spec: object): object {
  return { apiVersion: "example.com/v1", kind: "Widget", metadata: { name }, spec };
}

async function setFields(properties: Readonly<Record<string, Schema>>): Promise<void> {
  const { spec } = crdWith(properties) as { spec: object };
  const { code } = await sendRequest(environment, "PATCH", `${crds}/widgets.example.com`, { spec }, "merge");
  expect(code).toBe(200);
}

/** A JSON merge patch removes fields that are null. */
const removed = (...names: readonly string[]): Readonly<Record<string, Schema>> =>
  Object.fromEntries(names.map((name) => [name, null as never]));

it("prunes fields that were removed from the schema when an object is read, patched and watched", async () => {
  await start({ n: integer, color: text });
  await sendRequest(environment, "POST", widgets, widget("a", { n: 1, color: "red" }));
  await sendRequest(environment, "POST", widgets, widget("b", { n: 2, color: "blue" }));
  const { revision } = environment.store;
  await setFields({ n: integer, ...removed("color") });

  expect((await sendRequest(environment, "GET", `${widgets}/a`)).body["spec"]).toEqual({ n: 1 });
  const list = await environment.transport().request({ method: "GET", path: widgets });
  expect(specsOf(list.body)).toEqual([{ n: 1 }, { n: 2 }]);

  const watch = await environment
    .transport()
    .watch({ method: "GET", path: widgets, query: { resourceVersion: String(revision - 1) } });
  const events = watch[Symbol.asyncIterator]();
  expect(await specOfNext(events)).toEqual({ n: 2 });
  // The patch sees the pruned object, and its result is stored without the field.
  await sendRequest(environment, "PATCH", `${widgets}/a`, { metadata: { labels: { a: "b" } } }, "merge");
  expect(await specOfNext(events)).toEqual({ n: 1 });
  expect(stored("a")).not.toContain("red");
  expect(stored("b")).toContain("blue");
  await sendRequest(environment, "DELETE", `${widgets}/b`);
  expect(await specOfNext(events)).toEqual({ n: 2 });
  watch.close();
});

it("writes the pruned object on an update that changes nothing else", async () => {
  await start({ n: integer, color: text });
  await sendRequest(environment, "POST", widgets, widget("a", { n: 1, color: "red" }));
  await setFields({ n: integer, ...removed("color") });
  const { body: read } = await sendRequest(environment, "GET", `${widgets}/a`);
  const { body: written } = await sendRequest(environment, "PUT", `${widgets}/a`, read);
  expect(written["metadata"].resourceVersion).not.toBe(read["metadata"].resourceVersion);
  expect(stored("a")).not.toContain("red");
  const { body: again } = await sendRequest(environment, "PUT", `${widgets}/a`, written);
  expect(again["metadata"].resourceVersion).toBe(written["metadata"].resourceVersion);
});

it("returns a field again if it is restored to the schema before the object is written", async () => {
  await start({ n: integer, color: text });
  await sendRequest(environment, "POST", widgets, widget("a", { n: 1, color: "red" }));
  await setFields({ n: integer, ...removed("color") });
  expect((await sendRequest(environment, "GET", `${widgets}/a`)).body["spec"]).toEqual({ n: 1 });
  await setFields({ n: integer, color: text });
  expect((await sendRequest(environment, "GET", `${widgets}/a`)).body["spec"]).toEqual({ n: 1, color: "red" });
});

it("checks only objects that were written before the schema lost a field", async () => {
  await start({ n: integer });
  const mark = (): number => environment.resources.get("example.com", "v1", "widgets")?.pruning?.revision ?? 0;
  const created = mark();
  await setFields({ n: integer, color: text });
  expect(mark()).toBe(created);
  const before = environment.store.revision;
  await setFields({ n: integer, ...removed("color") });
  expect(mark()).toBeGreaterThan(before);
});

function specsOf(list: unknown): readonly unknown[] {
  return (list as { items: { spec: unknown }[] }).items.map(({ spec }) => spec);
}

async function specOfNext(events: AsyncIterator<{ readonly object: unknown }>): Promise<unknown> {
  const { value } = (await events.next()) as { value: { object: { spec: unknown } } };
  return value.object.spec;
}

function stored(name: string): string {
  return String(environment.store.get(`example.com/widgets/default/${name}`)?.bytes);
}
