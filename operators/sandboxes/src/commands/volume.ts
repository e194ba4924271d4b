import { toJson } from "@bufbuild/protobuf";
import { type CommandContext, type CommandDefinition, formatResult, outputFlag, renderTable } from "@keelson/operator";
import { textFlag, UsageError } from "@keelson/operator/flags";
import { VolumeInfoSchema } from "@keelson/sandbox/protocol";
import { type Connection, connectionFlags, runWith } from "./connection.ts";
import { age } from "./sandbox-age.ts";

const poolFlag = textFlag({
  name: "pool",
  value: "NAME",
  description: "pool whose sandboxes may use it (create)",
  default: "default-pool",
});
const sizeFlag = textFlag({ name: "size", value: "SIZE", description: "its size, 16Mi to 1Ti (create)", default: "1Gi" });

type Action = (connection: Connection, volumeName: string, context: CommandContext) => Promise<void>;

const createVolume: Action = async ({ volumes, namespace }, volumeName, context) => {
  const request = { volumeName, namespace, poolRef: poolFlag.read(context.flags), size: sizeFlag.read(context.flags) };
  const created = await volumes.createVolume(request, { signal: context.signal });
  const { agentPod } = created;
  context.stdout.write(
    formatResult(
      context,
      toJson(VolumeInfoSchema, created),
      () =>
        `volume ${namespace}/${volumeName} created on agent ${agentPod}; mount it: keelson sandbox run --volume ${volumeName}:/data ...\n`,
    ),
  );
};

const deleteVolume: Action = async ({ volumes, namespace }, volumeName, context) => {
  await volumes.deleteVolume({ volumeName, namespace }, { signal: context.signal });
  context.stdout.write(`volume ${namespace}/${volumeName} deleted\n`);
};

const listVolumes: Action = async ({ volumes, namespace }, _, context) => {
  const { items } = await volumes.listVolumes({ namespace }, { signal: context.signal });
  const rows = items.map((item) => [
    ...[item.volumeName, item.size, item.phase, item.agentPod || "-", item.usedBy.join(",") || "-"],
    ...[age(item, context.clock.now()), item.message],
  ]);
  context.stdout.write(
    formatResult(
      context,
      items.map((item) => toJson(VolumeInfoSchema, item)),
      () =>
        rows.length === 0
          ? `No volumes in namespace ${namespace}; create one: keelson sandbox volume create NAME --size 1Gi\n`
          : renderTable([["NAME", "SIZE", "PHASE", "AGENT", "USED BY", "AGE", "MESSAGE"], ...rows]),
    ),
  );
};

const actions: ReadonlyMap<string, Action> = new Map([
  ["create", createVolume],
  ["list", listVolumes],
  ["delete", deleteVolume],
]);

/** `keelson sandbox volume create`, `list` and `delete`. */
export const volumeCommand: CommandDefinition = {
  name: "volume",
  description: "create, list or delete volumes, which outlive sandboxes: keelson sandbox volume create NAME --size 1Gi",
  args: ["ACTION", "[NAME]"],
  flags: [...connectionFlags, poolFlag, sizeFlag, outputFlag],
  run: (context) =>
    runWith(context, async (connection) => {
      const [name = "", volumeName = ""] = context.args;
      const action = actions.get(name);
      if (action === undefined) throw new UsageError(`ACTION: ${name} must be create, list or delete`);
      if (name !== "list" && volumeName === "") throw new UsageError(`NAME is required: keelson sandbox volume ${name} NAME`);
      await action(connection, volumeName, context);
      return 0;
    }),
};
