import { Namespace, Secret } from "@keelson/api-machinery/kinds";
import { expect, test } from "vitest";
import { SecretMirror, secretMirrorController } from "./secret-mirror.ts";
import { runController } from "./testing/run-controller.ts";

test("copies a Secret to another namespace, follows its changes, and deletes the copy with the source", async () => {
  await using running = await runController(secretMirrorController, [SecretMirror]);
  const { client } = running;
  for (const name of ["vault", "app"]) await client.create(Namespace, { metadata: { name } });
  const copy = { namespace: "app", name: "password" };
  const source = { namespace: "vault", name: "database" };
  await client.create(SecretMirror, { metadata: copy, spec: { source } });
  const copied = async (): Promise<boolean | undefined> => (await client.get(SecretMirror, copy)).status?.copied;
  const password = (): Promise<string | undefined> =>
    client.get(Secret, copy).then(
      ({ data }) => Buffer.from(data?.["password"] ?? "", "base64").toString(),
      () => undefined,
    );
  await expect.poll(copied).toBe(false);

  await client.create(Secret, { metadata: source, data: { password: Buffer.from("one").toString("base64") } });
  await expect.poll(password).toBe("one");
  await expect.poll(copied).toBe(true);

  const body = { data: { password: Buffer.from("two").toString("base64") } };
  await client.patch(Secret, source, { type: "merge", body });
  await expect.poll(password).toBe("two");

  await client.delete(Secret, source);
  await expect.poll(password).toBe(undefined);
  await expect.poll(copied).toBe(false);
});
