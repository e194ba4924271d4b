import { RoleBinding } from "@keelson/api-machinery/kinds";
import { expect, test } from "vitest";
import { Team, teamController } from "./team.ts";
import { runController } from "./testing/run-controller.ts";

test("gives a team a namespace, follows its members, and restores a deleted binding", async () => {
  await using running = await runController(teamController, [Team]);
  const { client } = running;
  await client.create(Team, { metadata: { name: "blue" }, spec: { members: ["ada"] } });
  const binding = { namespace: "team-blue", name: "members" };
  const members = (): Promise<readonly string[] | undefined> =>
    client.get(RoleBinding, binding).then(
      ({ subjects }) => subjects?.map(({ name }) => name),
      () => undefined,
    );
  await expect.poll(members).toEqual(["ada"]);
  await expect.poll(async () => (await client.get(Team, { name: "blue" })).status?.conditions?.[0]?.status).toBe("True");

  await client.patch(Team, { name: "blue" }, { type: "merge", body: { spec: { members: ["ada", "grace"] } } });
  await expect.poll(members).toEqual(["ada", "grace"]);

  await client.delete(RoleBinding, binding);
  await expect.poll(members).toEqual(["ada", "grace"]);
});
