"""The only script of a page. It shows a chart's figures under the pointer; the page is complete without the script."""

from __future__ import annotations

SCRIPT = """\
"use strict";
const tip=document.getElementById("tip");
function two(n){return String(n).padStart(2,"0")}
for(const chart of document.querySelectorAll("svg[data-step]")){
  const data=chart.dataset,begin=+data.begin,step=+data.step,left=+data.left,width=+data.width;
  const zones=data.zones.split(",").map(one=>one.split(":"));
  const rows=data.rows.split("\\n").map(row=>{const[name,unit,values]=row.split("\\t");
    return{name,unit,values:values.split(",")}});
  const cursor=document.createElementNS("http://www.w3.org/2000/svg","line");
  cursor.setAttribute("class","cursor");cursor.setAttribute("y1",0);
  cursor.setAttribute("y2",chart.viewBox.baseVal.height);cursor.setAttribute("visibility","hidden");
  chart.append(cursor);
  const hide=()=>{tip.hidden=true;cursor.setAttribute("visibility","hidden")};
  chart.addEventListener("pointerleave",hide);
  chart.addEventListener("pointermove",event=>{
    const box=chart.getBoundingClientRect(),scale=chart.viewBox.baseVal.width/box.width;
    const x=(event.clientX-box.left)*scale,count=rows[0].values.length;
    const i=Math.floor((x-left)/width*count);
    if(i<0||i>=count){hide();return}
    const zone=+zones.filter(one=>+one[0]<=i).pop()[1],at=new Date((begin+i*step+zone)*1000);
    const lines=[two(at.getUTCHours())+":"+two(at.getUTCMinutes())+":"+two(at.getUTCSeconds())];
    for(const row of rows)if(row.values[i]!=="")lines.push(row.name+"  "+row.values[i]+" "+row.unit);
    tip.textContent=lines.join("\\n");tip.hidden=false;
    const right=event.clientX+tip.offsetWidth+24>innerWidth;
    tip.style.left=(right?event.clientX-tip.offsetWidth-14:event.clientX+14)+"px";
    tip.style.top=Math.min(event.clientY+14,innerHeight-tip.offsetHeight-8)+"px";
    const middle=left+(i+.5)/count*width;
    cursor.setAttribute("x1",middle);cursor.setAttribute("x2",middle);cursor.setAttribute("visibility","visible");
  });
}
"""
