import { Play, RotateCw, Square } from "lucide-react";
import { useState } from "react";

import { $api } from "@/api/client";
import { useMay } from "@/api/session";
import { plural } from "@/lib/format";
import { Button } from "@/ui/Button";
import { Confirm } from "@/ui/Dialog";
import { tellProblem } from "@/ui/toasts";

import { keepTeam, type TeamRead } from "./teamQueries";

/** Still running though it is to stop: neither deployed nor stopped. */
export function isStopping(team: Pick<TeamRead, "deployed" | "status">): boolean {
  return !team.deployed && team.status !== "stopped";
}

/** What each button does, in words; also shown on the team's page. */
export const CONTROL_MEANS = {
  deploy: "Starts it. Messages that wait are answered.",
  restart: "Stops it and starts it again, with its conversation and files.",
  stop: "Ends what runs. Conversation, files and waiting messages are kept.",
};

function useOrders() {
  const options = { onSuccess: keepTeam, onError: tellProblem };
  return {
    deploy: $api.useMutation("post", "/api/teams/{team_id}/deploy", options),
    restart: $api.useMutation("post", "/api/teams/{team_id}/restart", options),
    stop: $api.useMutation("post", "/api/teams/{team_id}/stop", options),
  };
}

interface Props {
  team: TeamRead;
  size?: "small" | "normal";
  /** Deploying is the next thing to do here. */
  primary?: boolean;
  /** Shows icons alone; their names stay for screen readers, and as tooltips. */
  compact?: boolean;
}

/** Deploy, stop and restart: those of them that make sense now. */
export function TeamControls({ team, size = "normal", primary = false, compact = false }: Props) {
  const may = useMay("teams:write");
  const orders = useOrders();
  const [asked, setAsked] = useState<"stop" | "restart">();
  if (!may) return null;
  const init = { params: { path: { team_id: team.id } } };
  const give = (order: "stop" | "restart") => (team.waiting > 0 ? setAsked(order) : orders[order].mutate(init));
  const failed = team.status === "error";
  const word = compact ? "sr-only" : undefined;
  const icon = size === "small" ? 13 : 15;
  return (
    <>
      {(!team.deployed || failed) && (
        <Button
          size={size}
          look={primary ? "primary" : "plain"}
          icon={<Play size={icon} aria-hidden />}
          title={`${failed ? "Try again" : "Deploy"}: ${CONTROL_MEANS.deploy}`}
          busy={orders.deploy.isPending}
          disabled={isStopping(team)}
          onClick={() => orders.deploy.mutate(init)}
        >
          <span className={word}>{isStopping(team) ? "Stopping…" : failed ? "Try again" : "Deploy"}</span>
        </Button>
      )}
      {team.deployed && !failed && (
        <Button size={size} icon={<RotateCw size={icon} aria-hidden />} title={`Restart: ${CONTROL_MEANS.restart}`} busy={orders.restart.isPending} onClick={() => give("restart")}>
          <span className={word}>Restart</span>
        </Button>
      )}
      {team.deployed && (
        <Button size={size} icon={<Square size={icon} aria-hidden />} title={`Stop: ${CONTROL_MEANS.stop}`} busy={orders.stop.isPending} onClick={() => give("stop")}>
          <span className={word}>Stop</span>
        </Button>
      )}
      {asked && (
        <Confirm
          title={`${asked === "stop" ? "Stop" : "Restart"} ${team.name}?`}
          action={asked === "stop" ? "Stop the team" : "Restart the team"}
          onClose={() => setAsked(undefined)}
          onConfirm={() => {
            orders[asked].mutate(init);
            setAsked(undefined);
          }}
        >
          <p>
            {plural(team.waiting, "message")} of it {team.waiting === 1 ? "is" : "are"} open. What is being answered right now may be
            cut off; the rest waits{asked === "stop" ? " until you deploy the team again" : " and is answered afterwards"}.
          </p>
          <p>Its conversation and its files stay.</p>
        </Confirm>
      )}
    </>
  );
}
