import { controllerReference, type DeepReadonly, type KubernetesObject, statusError } from "@keelson/api-machinery";
import { createCertificateAuthority, issueCertificate } from "@keelson/api-machinery/certificates";
import type { Client } from "@keelson/client";
import { expect, it } from "vitest";
import { App } from "../../api/app.ts";
import type { Component } from "../../api/component.ts";
import { affectsCertificates, certificateProblems } from "./certificate-problems.ts";

const runtime = { name: "redis", version: "7.2" };
const own: App["spec"]["tls"] = { mode: "prefer", secretName: "own" };
const appOf = (tls: App["spec"]["tls"]): App => ({
  apiVersion: "middleware.io/v1alpha1",
  kind: App.kind,
  metadata: { name: "cache", namespace: "default", uid: "u1" },
  spec: { plugin: runtime, runtime, ...(tls === undefined ? {} : { tls }) },
});

/** A client of a cluster with these objects. */
function clientOf(objects: Readonly<Record<string, object>>): Pick<Client, "get"> {
  const get = ({ kind }: { readonly kind: string }, { name }: { readonly name: string }) => {
    const found = objects[`${kind} ${name}`];
    return found === undefined
      ? Promise.reject(statusError("NotFound", `${kind} ${name} not found`))
      : Promise.resolve({ apiVersion: "v1", kind, metadata: { name }, ...found } as DeepReadonly<KubernetesObject>);
  };
  return { get: get as Client["get"] };
}

async function secret(change: Readonly<Record<string, string>> = {}): Promise<object> {
  const validity = { notBefore: new Date(0), notAfter: new Date(Date.UTC(2040, 0)) };
  const ca = await createCertificateAuthority("test", validity.notBefore, validity.notAfter);
  const leaf = await issueCertificate(ca, { ...validity, commonName: "cache", usage: "peer", hosts: ["cache"] });
  const texts = { "ca.crt": ca.certificate, "tls.crt": leaf.certificate, "tls.key": leaf.key, ...change };
  return { data: Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, Buffer.from(text).toString("base64")])) };
}

const messagesOf = async (app: App, objects: Readonly<Record<string, object>>, components: readonly Component[] = []) =>
  (await certificateProblems(app, components, clientOf(objects))).map(({ field, message }) => `${field}: ${message}`);

it("rejects the Secret of a user that is missing or cannot be used, before any Pod is created", async () => {
  expect(await messagesOf(appOf(own), {})).toEqual(["spec.tls.secretName: Secret own: not found"]);
  expect(await messagesOf(appOf(own), { "Secret own": await secret({ "tls.key": "x" }) })).toEqual([
    "spec.tls.secretName: Secret own: tls.crt and tls.key: must be a certificate and its key in PEM",
  ]);
  expect(await messagesOf(appOf(own), { "Secret own": await secret() })).toEqual([]);
});

it("rejects TLS while objects of others have the names of those with the App's certificates", async () => {
  const message = "exists and is not controlled by this App: rename or delete it";
  const objects = { "Secret cache-tls": {} };
  expect(await messagesOf(appOf({ mode: "require" }), objects)).toEqual([`spec.tls: Secret cache-tls ${message}`]);
  expect(await messagesOf(appOf({ mode: "disabled" }), objects)).toEqual([]);
  expect(await messagesOf(appOf(undefined), objects)).toEqual([]);
  const metadata = { name: "cache-tls", ownerReferences: [controllerReference(appOf(own))] };
  expect(await messagesOf(appOf({ mode: "require" }), { "Secret cache-tls": { metadata } })).toEqual([]);
});

it("does not hold up other changes of an App that uses TLS already", async () => {
  const using = { spec: { tls: own } } as unknown as Component;
  expect(await messagesOf(appOf(own), {}, [using])).toEqual([]);
});

it("is repeated when one of these objects changes", () => {
  const names = ["own", "cache-ca", "cache-tls", "cache-access"];
  expect(names.map((name) => affectsCertificates(appOf(own), name))).toEqual([true, true, true, false]);
  expect(affectsCertificates(appOf(undefined), "cache-ca")).toBe(false);
});
