"use strict";
(() => {
  const controls = document.querySelector(".controls");
  if (controls) {
    const field = (name) => controls.elements[name];
    const shelves = [...document.querySelectorAll(".shelf")];
    const has = (card, mark) => mark === "all" || card.dataset.marks.split(" ").includes(mark);
    const text = (key) => (a, b) => a.dataset[key].localeCompare(b.dataset[key], undefined, { numeric: true });
    const number = (sign) => (a, b) => sign * (Number(a.dataset.score) - Number(b.dataset.score));
    const orders = { strongest: number(-1), weakest: number(1), name: text("name"), taken: text("predicted") };
    const update = () => {
      const word = field("search").value.trim().toLowerCase();
      const mark = field("show").value;
      const order = orders[field("sort").value];
      let shown = 0, total = 0;
      for (const shelf of shelves) {
        const list = shelf.querySelector(".suspects");
        const cards = [...list.children].sort(order);
        const chosen = field("label").value;
        const right = chosen === "" || shelf.dataset.label === chosen;
        let here = 0;
        for (const card of cards) {
          card.hidden = !(has(card, mark) && card.dataset.name.toLowerCase().includes(word));
          here += card.hidden ? 0 : 1;
        }
        list.append(...cards);
        shelf.hidden = !right || (here === 0 && (word !== "" || mark !== "all"));
        shown += right ? here : 0;
        total += cards.length;
      }
      field("count").value = `${shown} of ${total} pictures`;
    };
    controls.hidden = false;
    controls.addEventListener("input", update);
    controls.addEventListener("submit", (event) => event.preventDefault());
    update();
  }
  const every = ".card img, .looks img";
  if (document.querySelector(every)) {
    const box = document.createElement("dialog");
    const large = document.createElement("img");
    const words = document.createElement("p");
    const close = document.createElement("button");
    box.className = "zoom";
    close.textContent = "Close";
    box.append(large, words, close);
    let current = null;
    const show = (picture) => {
      current = picture;
      large.src = picture.src;
      large.alt = picture.alt;
      large.classList.toggle("pixels", picture.closest(".tiny") !== null);
      const item = picture.closest("li");
      words.textContent = `${picture.alt} · ${item.dataset.name || item.querySelector(".file").title}`;
      if (!box.isConnected) document.body.append(box);
      if (!box.open) box.showModal();
    };
    const shut = () => {
      box.close();
      current.focus();
    };
    const move = (step) => {
      const seen = [...document.querySelectorAll(every)].filter((each) => each.offsetParent !== null);
      show(seen[(seen.indexOf(current) + step + seen.length) % seen.length]);
    };
    for (const picture of document.querySelectorAll(every)) {
      picture.tabIndex = 0;
      picture.setAttribute("role", "button");
      picture.title = "Enlarge";
      picture.addEventListener("click", () => show(picture));
      picture.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        show(picture);
      });
    }
    box.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) move(step);
    });
    box.addEventListener("click", (event) => {
      if (event.target === box || event.target === close) shut();
    });
    // Not on the event "close": it comes later, and would take the focus from what has it by then.
    box.addEventListener("cancel", (event) => {
      event.preventDefault();
      shut();
    });
  }
  window.addEventListener("beforeprint", () => {
    for (const each of document.querySelectorAll("details")) each.open = true;
  });
})();
